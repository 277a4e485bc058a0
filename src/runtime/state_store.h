// The state database: which boxes exist, what they were made of and which bases they need.
//
// Thread safe, and used by any number of processes at once: every call is one short transaction, and no call
// does anything slow while it holds one.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/box_record.h"
#include "runtime/home.h"
#include "runtime/sqlite.h"

namespace boxlite::runtime {

inline constexpr int kSchemaVersion = 1;

class StateStore {
  public:
    // Makes or migrates the database. kUnsupported when a newer release wrote it.
    static Result<std::unique_ptr<StateStore>> open(const Home& home);

    // ---- boxes

    // kAlreadyExists when the name (or id) is taken. The base must be known. With `durable`, the box is
    // there after a crash of the host too. One on a private network gets addresses there, which are in the
    // configuration that is returned: see choose_address().
    Result<BoxConfig> add_box(BoxRecord record, bool durable);
    // By id, else by name, else by a prefix of the id that is unique. kNotFound; kInvalidArgument for an
    // ambiguous prefix.
    Result<BoxRecord> find_box(const std::string& id_or_name);
    Result<BoxRecord> box_by_id(const std::string& id);
    Result<bool> has_box(const std::string& id);
    Result<bool> has_name(const std::string& name);
    // Newest first.
    Result<std::vector<BoxRecord>> boxes();
    Result<std::vector<std::string>> box_ids();
    // Nothing happens when the box is gone.
    Result<void> set_state(const std::string& id, const BoxState& state);
    // Of a box's configuration only what can be changed later may differ. Nothing happens when the box is
    // gone.
    Result<void> set_config(const BoxConfig& config);
    // Whether there was one.
    Result<bool> remove_box(const std::string& id);
    // Names of the boxes made from this image (config digest).
    Result<std::vector<std::string>> boxes_of_image(const std::string& image_id);

    // ---- bases: immutable file systems under boxes' disks, by the name of their file

    Result<void> add_base(const std::string& base, const std::string& image_id);
    // Whether the base is known, and as one that this image needs.
    Result<bool> has_base(const std::string& base, const std::string& image_id);
    // The image no longer holds on to its base.
    Result<void> release_image(const std::string& image_id);
    // Bases that neither an image nor a box needs are forgotten; returns them. The caller holds the bases
    // lock exclusively and removes the files.
    Result<std::vector<std::string>> take_unused_bases();

    // ---- small facts

    Result<std::string> fact(const std::string& key);  // "" when unknown
    Result<void> set_fact(const std::string& key, const std::string& value);

  private:
    explicit StateStore(Database database) : database_(std::move(database)) {}
    Result<void> give_address(BoxConfig& config);
    Result<std::vector<BoxRecord>> select(std::string_view condition, std::string_view argument);

    std::mutex mutex_;
    Database database_;
};

// Identifies this boot of the host.
Result<std::string> host_boot_id();

}  // namespace boxlite::runtime
