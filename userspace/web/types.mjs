// SPDX-License-Identifier: MIT
// Makes the dashboard's types out of the API's schema: one for each of its $defs, of that name. Run by
// ./build, as `node types.mjs SCHEMA OUT.ts`.
import { readFileSync, writeFileSync } from "node:fs";

const { $defs } = JSON.parse(readFileSync(process.argv[2], "utf8"));
const name = (def) => def.replace(/(^|_)(\w)/g, (_, _bar, letter) => letter.toUpperCase());
const known = new Set(["$comment", "type", "const", "enum", "anyOf", "$ref", "items", "maxItems", "minimum", "pattern",
	"properties", "required", "additionalProperties"]);

function type(schema) {
	for (const key of Object.keys(schema))
		if (!known.has(key))
			throw new Error(`types.mjs does not know what "${key}" of the schema means`);
	if (schema.$ref) {
		const [def, , property] = schema.$ref.replace("#/$defs/", "").split("/");
		return name(def) + (property ? `["${property}"]` : "");
	}
	if (schema.anyOf)
		return schema.anyOf.map(type).join(" | ");
	if ("const" in schema || schema.enum)
		return (schema.enum ?? [schema.const]).map((v) => JSON.stringify(v)).join(" | ");
	if (Array.isArray(schema.type))
		return schema.type.map((t) => type({ ...schema, type: t })).join(" | ");
	if (schema.type === "array")
		return `(${schema.items ? type(schema.items) : "unknown"})[]`;
	if (schema.type === "integer")
		return "number";
	if (schema.type !== "object")
		return schema.type;
	if (!schema.properties)
		return `Record<string, ${schema.additionalProperties ? type(schema.additionalProperties) : "unknown"}>`;
	const fields = Object.entries(schema.properties).map(
		([key, of]) => `\t${key}${schema.required?.includes(key) ? "" : "?"}: ${type(of).replaceAll("\n", "\n\t")};\n`);
	return `{\n${fields.join("")}}`;
}

writeFileSync(process.argv[3], `// Made of ${process.argv[2].split("/").pop()}.\n` +
	Object.entries($defs).map(([def, schema]) => `export type ${name(def)} = ${type(schema)};\n`).join(""));
