"""Google ADK agents behind the `Agent` port."""
