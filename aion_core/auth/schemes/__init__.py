"""Registry of the authentication schemes."""

from aion_core.auth.scheme import Scheme
from aion_core.auth.schemes.api_key import ApiKeyScheme
from aion_core.auth.schemes.aws_iam import AwsIamScheme
from aion_core.auth.schemes.basic import BasicScheme
from aion_core.auth.schemes.bearer import BearerJwtScheme, OidcScheme

SCHEMES: tuple[type[Scheme], ...] = (BearerJwtScheme, OidcScheme, ApiKeyScheme, BasicScheme, AwsIamScheme)
"""All schemes. To add a scheme, write a file in this package and add its class here."""
