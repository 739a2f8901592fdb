"""Build of Lambda packages with a project's code and its locked dependencies.

build        reads a project, and writes the packages of its functions
functions    the functions, and their requirements
declared     dependencies that the project declares
lock         their exact versions and hashes
installed    the locked dependencies, installed, and which of them a function needs
trim         files of dependencies that no function needs
elf          removes symbols of native libraries
selection    files of the project
secrets      finds private keys and credentials in them
metadata     metadata of the project's own distribution
own_code     aion-lambda's own code
package      a built package
part         the part of it that stays the same when the project's code changes
cache        folder of the installed dependencies and of finished parts
"""
