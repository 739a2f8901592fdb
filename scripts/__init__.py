"""Generators and checks of this repository, most of them commands of `make`. aion-lambda is published without them.

Generators
    config_schema      the JSON Schema of aion.yaml
    openapi            the OpenAPI document, with examples from a server
    docs_site          the documentation site
    reference          the site's reference pages
    cost               docs/cost.md, from the counted requests and the prices in prices.toml
    cost_scenarios     runs scenarios, and counts their requests
    metering           counts the emulator's AWS requests and capacity units
    terminal           the README's recorded terminal
    terminal_svg       the drawing of a recorded terminal

Checks
    policies           template.yaml and its nested stacks
    package_check      the size and the cold start of the functions' packages
    package_load       runs code of a built package
    mutants            mutation tests of the rules
    lines              lines per package, long files
    nearest            the tests of changed files, for `make quick`
"""
