"""Unpacks one part of a wheel, with its permissions: WHEEL PART DESTINATION."""

import os
import sys
import zipfile

wheel, part, destination = sys.argv[1:]
found = 0
with zipfile.ZipFile(wheel) as archive:
    for entry in archive.infolist():
        folders = entry.filename.split("/")
        if entry.is_dir() or not folders[0].endswith(".data"):
            continue
        below = "/".join(folders[1:])
        if not below.startswith(part + "/") or ".." in folders:
            continue
        path = os.path.join(destination, below[len(part) + 1:])
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with archive.open(entry) as source, open(path, "wb") as copy:
            copy.write(source.read())
        os.chmod(path, 0o755 if (entry.external_attr >> 16) & 0o111 else 0o644)
        found += 1
if not found:
    sys.exit("the wheel has nothing below " + part)
