"""Validates each line of FILE as a PPMP message against SCHEMA (arguments: SCHEMA FILE); prints the count."""

import json
import sys

import jsonschema


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        schema = json.load(file)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    count = 0
    with open(sys.argv[2], encoding="utf-8") as file:
        for line in file:
            validator.validate(json.loads(line))
            count += 1
    # The schema must refuse invalid messages.
    for wrong in [{}, {"content-spec": "urn:spec://eclipse.org/unide/machine-message#v3", "device": {}, "messages": []}]:
        if validator.is_valid(wrong):
            sys.exit("the schema takes what is no message")
    print(f"{count} valid")


main()
