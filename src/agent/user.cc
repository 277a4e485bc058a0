#include "agent/user.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

namespace boxlite::agent {

namespace {

constexpr uint32_t kLargestId = 0x7fffffff;

std::optional<uint32_t> parse_id(std::string_view text) {
    uint32_t id = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
    if (error != std::errc() || end != text.data() + text.size() || id > kLargestId) return std::nullopt;
    return id;
}

// Cuts up to the next `separator`, which goes too.
std::string_view take(std::string_view& text, char separator) {
    const size_t end = text.find(separator);
    const std::string_view part = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    return part;
}

// name:password:id:rest, the part that both files share.
struct Entry {
    std::string_view name;
    uint32_t id = 0;
    std::string_view rest;
};

template <typename Visit>
void for_each_entry(std::string_view text, Visit visit) {
    while (!text.empty()) {
        std::string_view line = take(text, '\n');
        Entry entry;
        entry.name = take(line, ':');
        take(line, ':');
        const auto id = parse_id(take(line, ':'));
        if (entry.name.empty() || entry.name.front() == '#' || !id) continue;
        entry.id = *id;
        entry.rest = line;
        if (!visit(entry)) return;
    }
}

// By name, else by number.
std::optional<Entry> find_entry(std::string_view text, std::string_view key) {
    const auto number = parse_id(key);
    std::optional<Entry> found;
    for_each_entry(text, [&](const Entry& entry) {
        if (entry.name == key) {
            found = entry;
            return false;
        }
        if (number && entry.id == *number && !found) found = entry;
        return true;
    });
    return found;
}

bool lists(std::string_view members, std::string_view name) {
    while (!members.empty())
        if (take(members, ',') == name) return true;
    return false;
}

void add_groups_of(std::string_view name, std::string_view group_file, User& user) {
    for_each_entry(group_file, [&](const Entry& group) {
        if (lists(group.rest, name) &&
            std::find(user.groups.begin(), user.groups.end(), group.id) == user.groups.end())
            user.groups.push_back(group.id);
        return true;
    });
}

}  // namespace

Result<User> resolve_user(std::string_view spec, std::string_view passwd, std::string_view group) {
    const size_t colon = spec.find(':');
    const std::string_view user_key = spec.empty() || colon == 0 ? "0" : spec.substr(0, colon);
    const std::string_view group_key = colon == std::string_view::npos ? "" : spec.substr(colon + 1);

    User user;
    const auto entry = find_entry(passwd, user_key);
    if (entry) {
        std::string_view rest = entry->rest;
        user.uid = entry->id;
        user.gid = parse_id(take(rest, ':')).value_or(0);
    } else if (const auto uid = parse_id(user_key)) {
        user.uid = *uid;
    } else {
        return base::make_error(
            ErrorCode::kInvalidArgument,
            "no user '{}' in the container's /etc/passwd; give a name from it or a number", user_key);
    }
    if (group_key.empty()) {
        user.groups.push_back(user.gid);
        if (entry) add_groups_of(entry->name, group, user);
        return user;
    }
    if (const auto group_entry = find_entry(group, group_key)) {
        user.gid = group_entry->id;
    } else if (const auto gid = parse_id(group_key)) {
        user.gid = *gid;
    } else {
        return base::make_error(
            ErrorCode::kInvalidArgument,
            "no group '{}' in the container's /etc/group; give a name from it or a number", group_key);
    }
    user.groups = {user.gid};
    return user;
}

}  // namespace boxlite::agent
