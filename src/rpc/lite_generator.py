#!/usr/bin/env python3
"""Generates the classes of a .proto file for lite.h.

usage: lite_generator.py INPUT.proto OUTPUT.h

Understands what box.proto is made of: proto3 messages with fields of type bool, int32, uint32, int64, uint64,
string, bytes, enum and message, singular or, for the last four but enum, repeated; and enums that start at 0.
Anything else is an error.
"""

import os
import re
import sys

SCALARS = {"bool": "bool", "int32": "int32_t", "uint32": "uint32_t", "int64": "int64_t", "uint64": "uint64_t"}
TEXTS = {"string", "bytes"}


class Unsupported(Exception):
    pass


def strip(text):
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)


def parse(text):
    """Messages as [(name, [(repeated, type, field, number)])] and enums as [(name, [(value, number)])]."""
    messages, enums = [], []
    text = strip(text)
    for kind, name, body in re.findall(r"\b(message|enum|service)\s+(\w+)\s*\{([^{}]*)\}", text):
        if kind == "message":
            messages.append((name, [parse_field(name, line) for line in statements(body)]))
        elif kind == "enum":
            enums.append((name, [parse_value(name, line) for line in statements(body)]))
    rest = re.sub(r"\b(message|enum|service)\s+\w+\s*\{[^{}]*\}", "", text)
    for line in statements(rest):
        if not re.fullmatch(r'syntax = "proto3"|package [\w.]+|option \w+ = \w+', line):
            raise Unsupported(line)
    return messages, enums


def statements(body):
    return [" ".join(part.split()) for part in body.split(";") if part.strip()]


def parse_field(message, line):
    match = re.fullmatch(r"(repeated )?(\w+) (\w+) = (\d+)", line)
    if not match:
        raise Unsupported(f"{message}: {line}")
    return bool(match[1]), match[2], match[3], int(match[4])


def parse_value(enum, line):
    match = re.fullmatch(r"(\w+) = (\d+)", line)
    if not match:
        raise Unsupported(f"{enum}: {line}")
    return match[1], int(match[2])


def in_order(messages):
    """Every message after those that it holds."""
    names = {name for name, _ in messages}
    done, ordered = set(), []

    def add(name, fields, path):
        if name in path:
            raise Unsupported(f"{name} holds itself")
        if name in done:
            return
        for _, kind, _, _ in fields:
            if kind in names:
                add(kind, dict(messages)[kind], path + [name])
        done.add(name)
        ordered.append((name, fields))

    for name, fields in messages:
        add(name, fields, [])
    return ordered


def member_type(repeated, kind, messages, enums):
    if kind in TEXTS:
        return "std::vector<std::string>" if repeated else "std::string"
    if kind in messages:
        return f"std::vector<{kind}>" if repeated else f"Present<{kind}>"
    if repeated or kind not in SCALARS and kind not in enums:
        raise Unsupported(f"a field of type {'repeated ' if repeated else ''}{kind}")
    return SCALARS.get(kind, kind)


def accessors(repeated, kind, name, messages):
    if repeated:
        element = "std::string" if kind in TEXTS else kind
        lines = [
            f"const std::vector<{element}>& {name}() const {{ return {name}_; }}",
            f"int {name}_size() const {{ return static_cast<int>({name}_.size()); }}",
            f"const {element}& {name}(int index) const {{ return {name}_[static_cast<size_t>(index)]; }}",
        ]
        if kind in TEXTS:
            return lines + [f"void add_{name}(std::string value) {{ {name}_.push_back(std::move(value)); }}"]
        return lines + [f"{element}* add_{name}() {{ return &{name}_.emplace_back(); }}"]
    if kind in TEXTS:
        return [
            f"const std::string& {name}() const {{ return {name}_; }}",
            f"void set_{name}(std::string value) {{ {name}_ = std::move(value); }}",
            f"void set_{name}(const void* data, size_t size) {{ {name}_.assign(static_cast<const char*>(data), size); }}",
            f"std::string* mutable_{name}() {{ return &{name}_; }}",
        ]
    if kind in messages:
        return [
            f"bool has_{name}() const {{ return {name}_.has(); }}",
            f"const {kind}& {name}() const {{ return {name}_.get(); }}",
            f"{kind}* mutable_{name}() {{ return &{name}_.mutable_get(); }}",
        ]
    kind = SCALARS.get(kind, kind)
    return [f"{kind} {name}() const {{ return {name}_; }}", f"void set_{name}({kind} value) {{ {name}_ = value; }}"]


def message_class(name, fields, messages, enums):
    lines = [f"class {name} {{", "  public:"]
    for repeated, kind, field, _ in fields:
        lines += ["    " + line for line in accessors(repeated, kind, field, messages)]
    visits = " ".join(f"visitor({number}, {field}_);" for _, _, field, number in fields)
    unused = "" if fields else "/*visitor*/"
    for qualifier in (" const", ""):
        lines.append(f"    template <typename V>\n    void visit(V& {unused or 'visitor'}){qualifier} {{ {visits} }}")
    lines += [
        "    size_t ByteSizeLong() const { return message_size(*this); }",
        "    uint8_t* SerializeWithCachedSizesToArray(uint8_t* out) const { return write_message(*this, out); }",
        "    bool ParseFromArray(const void* data, int size) {",
        f"        *this = {name}();",
        "        return parse_message(*this, {static_cast<const char*>(data), static_cast<size_t>(size)});",
        "    }",
    ]
    if fields:
        lines += ["", "  private:"]
    for repeated, kind, field, _ in fields:
        initial = "{}" if kind in SCALARS or kind in enums else ""
        lines.append(f"    {member_type(repeated, kind, messages, enums)} {field}_{initial};")
    return "\n".join(lines + ["};"])


def enum_class(name, values):
    if not values or values[0][1] != 0:
        raise Unsupported(f"{name} does not start at 0")
    body = "\n".join(f"    {value} = {number}," for value, number in values)
    return f"enum {name} : int {{\n{body}\n}};"


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, output = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        messages, enums = parse(file.read())
    names, enum_names = {name for name, _ in messages}, {name for name, _ in enums}
    parts = [f"// Generated from {os.path.basename(source)} by lite_generator.py.", "#pragma once", "",
             '#include "rpc/lite.h"', "", "namespace boxlite::lite {", ""]
    for name, values in enums:
        parts += [enum_class(name, values), ""]
    for name, fields in in_order(messages):
        parts += [message_class(name, fields, names, enum_names), ""]
    parts += ["}  // namespace boxlite::lite", ""]
    with open(output + ".new", "w", encoding="utf-8") as file:
        file.write("\n".join(parts))
    os.replace(output + ".new", output)


if __name__ == "__main__":
    try:
        main()
    except Unsupported as reason:
        sys.exit(f"lite_generator.py: not supported: {reason}")
