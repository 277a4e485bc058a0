#include "cli/command.h"

namespace boxlite::cli {

namespace {

struct Place {
    std::string box;  // empty: on the host
    std::string path;
};

// BOX:PATH, unless the part before the colon is a path itself: "./a:b" and "/a:b" are on the host.
Place parse_place(const std::string& text) {
    const size_t colon = text.find(':');
    if (colon == std::string::npos || colon == 0 || text.front() == '.' || text.find('/') < colon)
        return {{}, text};
    return {text.substr(0, colon), text.substr(colon + 1)};
}

Result<int> cp(Context& context, const Arguments& arguments) {
    const Place from = parse_place(arguments.operands[0]);
    const Place to = parse_place(arguments.operands[1]);
    if (from.box.empty() == to.box.empty())
        return base::make_error(
            ErrorCode::kInvalidArgument,
            "one of source and destination must be in a box, as BOX:PATH, and the other on the host");
    CopyOptions options;
    options.follow_symlinks = arguments.enabled("follow-symlinks") || arguments.enabled("follow-link");
    options.overwrite = !arguments.enabled("no-overwrite");
    options.include_parent = !arguments.enabled("no-include-parent") &&
                             (!arguments.has("include-parent") || arguments.enabled("include-parent"));
    const Runtime runtime = TRY(context.runtime());
    Box box = TRY(runtime.get(from.box.empty() ? to.box : from.box));
    const CopyStats stats = from.box.empty() ? TRY(box.copy_into(from.path, to.path, options))
                                             : TRY(box.copy_out(from.path, to.path, options));
    for (const std::string& path : stats.skipped)
        print_note(fmt::format("skipped '{}': a device or socket", path));
    return 0;
}

}  // namespace

std::vector<Command> copy_commands() {
    return {{.name = "cp",
             .operands = "BOX:PATH PATH | PATH BOX:PATH",
             .summary = "Copy files between the host and a box",
             .flags = {{'L', "follow-link", "", "copy what the source link points to"},
                       {0, "follow-symlinks", "", "the same"},
                       {0, "no-overwrite", "", "fail where a file exists"},
                       {0, "include-parent", "", "copy a folder under its own name (the default)"},
                       {0, "no-include-parent", "", "copy only the content of a folder"}},
             .least = 2,
             .most = 2,
             .run = cp,
             .operand_kind = "box"}};
}

}  // namespace boxlite::cli
