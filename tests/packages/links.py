#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""The links of the pages below a folder, as a reader has it installed. Usage: links.py FOLDER. Fails,
and names them, if some lead nowhere, or out of the folder, or if there are no pages."""

import pathlib, re, sys

folder = pathlib.Path(sys.argv[1]).resolve()
pages = sorted(folder.rglob("*.md"))
wrong = [] if pages else [f"{folder} has no pages"]
for page in pages:
    prose = re.sub(r"^    .*$", "", page.read_text(encoding="utf-8"), flags=re.M)
    for target in re.findall(r"\]\(([^)#\s]+)", prose):
        if re.match(r"https?:|mailto:", target):
            continue
        file = (page.parent / target).resolve()
        if not file.exists() or folder not in file.parents:
            wrong.append(f"{page.relative_to(folder)}: {target}")
print("\n".join(wrong) or f"{len(pages)} pages")
sys.exit(bool(wrong))
