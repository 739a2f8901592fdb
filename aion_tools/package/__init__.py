"""Build of Lambda packages with a project's code and its locked dependencies. Builds are reproducible.

plan           inputs of a function's package
requirements   dependencies, in exact versions
selection      files of the project
secrets        finds private keys and credentials in them
imports        modules that the agents import, and their frameworks
metadata       metadata of the project's own distribution
packages       builds the packages of plans
parts          installed parts that several packages share
files          tidies, compiles and normalises the files
elf            removes symbols of native libraries
aion_yaml      aion.yaml of the discovered agents of a project without one
zip_writer     writes the files into a zip
cache          folder of the built packages and parts
programs       uv and Python interpreters
"""
