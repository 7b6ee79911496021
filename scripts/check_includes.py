#!/usr/bin/env python3
"""Fail when a folder of src/aoizora includes one that stands below it in cmake/folders.cmake."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^#include "aoizora/([a-z_]+)/', re.MULTILINE)


def folder_order() -> list[str]:
    text = (ROOT / "cmake" / "folders.cmake").read_text()
    match = re.search(r"set\(AOIZORA_FOLDERS\s+([^)]*)\)", text)
    if match is None:
        sys.exit("cmake/folders.cmake: no list AOIZORA_FOLDERS")
    return match.group(1).split()


def main() -> int:
    order = {name: position for position, name in enumerate(folder_order())}
    bad = 0
    for path in sorted((ROOT / "src" / "aoizora").rglob("*.[ch]*")):
        folder = path.parent.name
        if folder not in order:
            continue  # pipeline.{h,cc} stand above all folders and may include each
        for used in INCLUDE.findall(path.read_text()):
            if order.get(used, len(order)) > order[folder]:
                where = path.relative_to(ROOT)
                print(f"{where}: {folder}/ must not include {used}/, which stands below it")
                bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
