"""What runs in the fork server and in the sandbox before the program: the standard library's smallest parts alone.

Nothing here may import the rest of the package: the server is started apart, with an empty environment.
"""
