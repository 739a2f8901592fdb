"""OpenAPI document of the HTTP+JSON binding.

document   builds the document, and writes it for docs/ and for the console
paths      describes an operation at its routes
schemas    converts proto messages to JSON schemas
fields     constraints of single fields
examples   records responses of a server as examples
"""
