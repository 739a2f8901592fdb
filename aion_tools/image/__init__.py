"""Container images of the functions with agents, for `image: true` in aion.yaml.

folders    the folders that docker builds images from
"""
