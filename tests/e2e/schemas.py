# SPDX-License-Identifier: MIT
"""The JSON that commands print, against the schemas in docs/schemas."""

import functools
import json
from pathlib import Path

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from jsonschema.validators import extend
from referencing import Registry
from referencing.jsonschema import DRAFT202012

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "schemas"
SUFFIX = ".schema.json"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
MANY = 2  # of a long array so many elements at each end are looked at, unless all are wanted


@functools.cache
def schemas():
    """All schemas by name: of documents, and `common`, which those refer to."""
    found = {path.name.removesuffix(SUFFIX): json.loads(path.read_text()) for path in sorted(FOLDER.glob("*" + SUFFIX))}
    for schema in found.values():
        assert schema.pop("$schema") == DIALECT  # with it jsonschema would take its own validator in place of ours
    return found


@functools.cache
def registry():
    resources = [(name + SUFFIX, DRAFT202012.create_resource(schema)) for name, schema in schemas().items()]
    return Registry().with_resources(resources).crawl()


seen = set()  # (number of a `properties`, key): the keys that documents have had


def properties(validator, members, document, schema):
    """The keyword `properties`, which notes the keys that it has met."""
    if isinstance(document, dict):
        seen.update((id(members), key) for key in members if key in document)
    yield from Draft202012Validator.VALIDATORS["properties"](validator, members, document, schema)


Validator = extend(Draft202012Validator, {"properties": properties})


@functools.cache
def validator_of(name):
    return Validator({"$ref": name + SUFFIX}, registry=registry())


def declared(name):
    """The keys that a schema names: {(number of their `properties`, key): where they stand in its file}."""
    keys = {}

    def walk(schema, where):
        if isinstance(schema, list):
            for number, part in enumerate(schema):
                walk(part, f"{where}/{number}")
        elif isinstance(schema, dict):
            for word, part in schema.items():
                if word == "properties" and not where.endswith("/if"):
                    keys.update({(id(part), key): f"{where}/{key}" for key in part})
                    for key, member in part.items():
                        walk(member, f"{where}/{key}")
                elif word not in ("required", "enum", "const"):
                    walk(part, where if word in ("items", "anyOf") else f"{where}/{word}".replace("/$defs", ""))

    walk(schemas()[name], name)
    return keys


def shortened(document):
    """The same without the middle of long arrays, whose elements are alike."""
    if isinstance(document, dict):
        return {key: shortened(member) for key, member in document.items()}
    if isinstance(document, list):
        return [shortened(member) for member in (document[:MANY] + document[-MANY:] if len(document) > 2 * MANY else document)]
    return document


def check(document, name=None, whole=False):
    """A document that a command has printed must be as the schema that it names says; `name`: of one that names none."""
    name = name or document["schema"].split("/")[1]
    assert name in schemas(), f"{document['schema']} has no schema in {FOLDER}"
    error = best_match(validator_of(name).iter_errors(document if whole else shortened(document)))
    assert not error, f"{name}{SUFFIX}, at {error.json_path}: {error.message[:600]}"


def links(schema):
    """All references in a schema, or in a part of it."""
    parts = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    own = [schema["$ref"]] if isinstance(schema, dict) and isinstance(schema.get("$ref"), str) else []
    return own + [link for part in parts for link in links(part)]
