#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Whether JSON is what the API's schema says: validate.py FILE, which has a list of {of: DEFINITION, fits: BOOL, value}"""

import json
import os
import sys

import jsonschema

with open(os.path.join(os.path.dirname(__file__), "../../Documentation/api/v1.schema.json"), encoding="utf-8") as file:
    schema = json.load(file)
with open(sys.argv[1], encoding="utf-8") as file:
    claims = json.load(file)
jsonschema.Draft202012Validator.check_schema(schema)
wrong = False
for claim in claims:
    of = {"$ref": f"#/$defs/{claim['of']}", "$defs": schema["$defs"]}
    problem = next(jsonschema.Draft202012Validator(of).iter_errors(claim["value"]), None)
    if bool(problem) == claim["fits"]:
        wrong = True
        print(f"{claim['of']}: {problem.json_path}: {problem.message}" if problem else
              f"{claim['of']} lets pass: {json.dumps(claim['value'])}", file=sys.stderr)
sys.exit(wrong)
