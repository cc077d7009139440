#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Whether JSON is what a definition of the API's schema says: validate.py DEFINITION FILE"""

import json
import os
import sys

import jsonschema

with open(os.path.join(os.path.dirname(__file__), "../../Documentation/api/v1.schema.json"), encoding="utf-8") as file:
    schema = json.load(file)
with open(sys.argv[2], encoding="utf-8") as file:
    value = json.load(file)
jsonschema.Draft202012Validator.check_schema(schema)
problem = next(jsonschema.Draft202012Validator({"$ref": f"#/$defs/{sys.argv[1]}", "$defs": schema["$defs"]}).iter_errors(value), None)
if problem:
    print(f"{problem.json_path}: {problem.message}", file=sys.stderr)
sys.exit(problem is not None)
