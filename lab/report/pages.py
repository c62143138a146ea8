# SPDX-License-Identifier: GPL-2.0-only
"""How templates become pages."""

import jinja2

from lab.core import paths


def environment() -> jinja2.Environment:
    """Of the templates in lab/templates; a name that a template does not get is an error."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(paths.LAB / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
