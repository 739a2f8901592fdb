"""Container images of a deployment."""

from collections.abc import Mapping

from aion_core.errors import ConfigurationError


def check_snap_start(parameters: Mapping[str, str], *, is_image: bool) -> None:
    """Raise ConfigurationError for images with SnapStart. The stacks refuse this too, but only after the upload."""
    value = parameters.get("SnapStart", "None")
    if is_image and value != "None":
        raise ConfigurationError(
            f"SnapStart={value} is for zips, and aion.yaml has `image: true`. Remove one of them. Nothing was built."
        )
