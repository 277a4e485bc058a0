#include "base/clock.h"
#include "cli/command.h"
#include "cli/describe.h"
#include "cli/format.h"
#include "cli/progress.h"

namespace boxlite::cli {

namespace {

constexpr size_t kShortId = 12;

std::string short_id(const std::string& id) {
    const size_t colon = id.find(':');
    return id.substr(colon == std::string::npos ? 0 : colon + 1).substr(0, kShortId);
}

Result<int> pull(Context& context, const Arguments& arguments) {
    const Runtime runtime = TRY(context.runtime());
    const bool quiet = arguments.enabled("quiet");
    const ImageInfo info = TRY([&] {
        ProgressDisplay progress(quiet);
        return runtime.images().pull(arguments.operands.front(), progress.sink());
    }());
    return write_out((quiet ? info.id : info.reference + "\n" + info.id) + "\n") ? 0 : kExitBrokenPipe;
}

Result<int> images(Context& context, const Arguments& arguments) {
    const Runtime runtime = TRY(context.runtime());
    const std::vector<ImageInfo> found = TRY(runtime.images().list());
    std::string ids;
    std::vector<Value> items;
    const int64_t now = base::realtime_ns();
    for (const ImageInfo& info : found) {
        ids += short_id(info.id) + "\n";
        Value item = describe_image(info);
        item["Age"] = human_age(info.created_at, now);
        items.push_back(std::move(item));
    }
    if (arguments.enabled("quiet")) return write_out(ids) ? 0 : kExitBrokenPipe;
    const auto text_of = [](const char* field) {
        return [field](const Value& item) {
            const std::string text = item.at(field).get<std::string>();
            return text.empty() ? std::string("<none>") : text;
        };
    };
    const std::vector<Column> columns = {
        {"REPOSITORY", text_of("Repository")},
        {"TAG", text_of("Tag")},
        {"IMAGE ID", [](const Value& item) { return short_id(item.at("Id").get<std::string>()); }},
        {"CREATED", text_of("Age")},
        {"SIZE", [](const Value& item) { return human_bytes(item.at("Size").get<uint64_t>()); }}};
    const std::string text = TRY(format_items(arguments.value("format", "table"), items, columns));
    return write_out(text) ? 0 : kExitBrokenPipe;
}

Result<int> rmi(Context& context, const Arguments& arguments) {
    const Runtime runtime = TRY(context.runtime());
    return for_each_name(arguments.operands, [&](const std::string& name) -> Result<std::string> {
        const ImageInfo info = TRY(runtime.images().remove(name, arguments.enabled("force")));
        return info.reference;
    });
}

Result<int> import(Context& context, const Arguments& arguments) {
    const Runtime runtime = TRY(context.runtime());
    const std::string name = arguments.operands.size() > 1 ? arguments.operands[1] : "";
    const std::vector<ImageInfo> imported = TRY([&] {
        ProgressDisplay progress(arguments.enabled("quiet"));
        return runtime.images().import(arguments.operands[0], name, progress.sink());
    }());
    std::string text;
    for (const ImageInfo& info : imported) text += info.reference + "\n";
    return write_out(text) ? 0 : kExitBrokenPipe;
}

}  // namespace

std::vector<Command> image_commands() {
    return {
        {.name = "pull",
         .operands = "IMAGE",
         .summary = "Fetch an image from its registry and prepare its disk",
         .flags = {{'q', "quiet", "", "print only the image's id"}},
         .least = 1,
         .most = 1,
         .run = pull,
         .operand_kind = "image"},
        {.name = "images",
         .summary = "List images",
         .flags = {{'q', "quiet", "", "only ids"},
                   {0, "format", "FORMAT", "table, json, yaml or a Go template (table)"}},
         .most = 0,
         .run = images},
        {.name = "rmi",
         .operands = "IMAGE...",
         .summary = "Remove images",
         .flags = {{'f', "force", "", "also images that boxes were made from"}},
         .least = 1,
         .run = rmi,
         .operand_kind = "image"},
        {.name = "import",
         .operands = "PATH [NAME]",
         .summary = "Take images from an OCI layout (a folder or a tar) or a `docker save` archive",
         .flags = {{'q', "quiet", "", "show no progress"}},
         .least = 1,
         .most = 2,
         .run = import,
         .operand_kind = "file"},
    };
}

}  // namespace boxlite::cli
