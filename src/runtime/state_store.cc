#include "runtime/state_store.h"

#include <array>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "runtime/networks.h"

namespace boxlite::runtime {

namespace {

// Entry n leads from schema n to n + 1.
constexpr std::array<const char*, kSchemaVersion> kMigrations = {R"sql(
    CREATE TABLE facts (
        key   TEXT PRIMARY KEY,
        value TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE bases (
        id         TEXT PRIMARY KEY,
        created_at INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE image_bases (
        image TEXT NOT NULL,
        base  TEXT NOT NULL REFERENCES bases (id),
        PRIMARY KEY (image, base)
    ) WITHOUT ROWID;
    CREATE INDEX image_bases_by_base ON image_bases (base);
    CREATE TABLE boxes (
        id         TEXT PRIMARY KEY,
        name       TEXT NOT NULL UNIQUE,
        created_at INTEGER NOT NULL,
        image      TEXT NOT NULL,
        base       TEXT NOT NULL REFERENCES bases (id),
        config     TEXT NOT NULL,
        state      TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX boxes_by_image ON boxes (image);
    CREATE INDEX boxes_by_base ON boxes (base);
)sql"};

Result<int64_t> schema_version(Database& database) {
    Statement statement = TRY(database.prepare("PRAGMA user_version"));
    TRY(statement.step());
    return statement.number(0);
}

Result<void> migrate(Database& database, const Home& home) {
    // One migrating process at a time: switching a fresh database to WAL is not covered by SQLite's own
    // locks.
    const base::FileLock lock = TRY(base::FileLock::acquire(home.migration_lock()));
    TRY(database.execute("PRAGMA journal_mode = WAL"));
    Transaction transaction = TRY(Transaction::begin(database));
    for (int64_t version = TRY(schema_version(database)); version < kSchemaVersion; ++version) {
        TRY(database.execute(kMigrations[static_cast<size_t>(version)]));
        TRY(database.execute(fmt::format("PRAGMA user_version = {}", version + 1).c_str()));
        base::log_info("state database migrated", {{"schema", fmt::to_string(version + 1)}});
    }
    return transaction.commit();
}

Result<BoxRecord> read_record(const Statement& row) {
    BoxConfig config = TRY(decode_config(row.text(0)));
    BoxState state = TRY(decode_state(row.text(1)));
    return BoxRecord{std::move(config), std::move(state)};
}

}  // namespace

Result<std::unique_ptr<StateStore>> StateStore::open(const Home& home) {
    Database database = TRY(Database::open(home.database()));
    const int64_t version = TRY(schema_version(database));
    if (version > kSchemaVersion)
        return base::make_error(
            ErrorCode::kUnsupported,
            "'{}' was written by a newer BoxLite (schema {}, this one knows {}); use that "
            "release or another --home",
            home.database(), version, kSchemaVersion);
    if (version < kSchemaVersion) TRY(migrate(database, home));
    TRY(database.execute(
        "PRAGMA foreign_keys = ON; PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 100"));
    return std::unique_ptr<StateStore>(new StateStore(std::move(database)));
}

Result<void> StateStore::give_address(BoxConfig& config) {
    if (config.private_network.empty()) return {};
    Statement query = TRY(database_.prepare(
        "SELECT config ->> '$.private_network', config ->> '$.private_address', "
        "config ->> '$.private_address6' FROM boxes WHERE config ->> '$.private_network' <> ''"));
    std::vector<NetworkAddress> taken;
    while (TRY(query.step())) taken.push_back({query.text(0), query.text(1), query.text(2)});
    const NetworkAddress address = TRY(choose_address(config.private_network, taken));
    config.private_address = address.v4;
    config.private_address6 = address.v6;
    return {};
}

Result<BoxConfig> StateStore::add_box(BoxRecord record, bool durable) {
    const std::scoped_lock lock(mutex_);
    if (durable) TRY(database_.execute("PRAGMA synchronous = FULL"));
    auto added = [&]() -> Result<void> {
        // Nobody else is given the same address meanwhile.
        Transaction transaction = TRY(Transaction::begin(database_));
        TRY(give_address(record.config));
        Statement insert =
            TRY(database_.prepare("INSERT INTO boxes (id, name, created_at, image, base, config, state) "
                                  "VALUES (?, ?, ?, ?, ?, ?, ?)"));
        const BoxConfig& config = record.config;
        insert.bind(1, config.id).bind(2, config.name).bind(3, config.created_at).bind(4, config.image_id);
        insert.bind(5, config.base).bind(6, encode(config)).bind(7, encode(record.state));
        TRY(insert.run());
        return transaction.commit();
    }();
    if (durable) TRY(database_.execute("PRAGMA synchronous = NORMAL"));
    if (!added.ok() && added.error().code == ErrorCode::kAlreadyExists)
        return base::make_error(ErrorCode::kAlreadyExists,
                                "a box named '{}' exists; remove it first or choose another name",
                                record.config.name);
    TRY(std::move(added));
    return std::move(record.config);
}

Result<std::vector<BoxRecord>> StateStore::select(std::string_view condition, std::string_view argument) {
    const std::scoped_lock lock(mutex_);
    Statement query = TRY(database_.prepare(fmt::format("SELECT config, state FROM boxes {}", condition)));
    if (condition.find('?') != std::string_view::npos) query.bind(1, argument);
    std::vector<BoxRecord> records;
    while (TRY(query.step())) records.push_back(TRY(read_record(query)));
    return records;
}

Result<BoxRecord> StateStore::box_by_id(const std::string& id) {
    auto records = TRY(select("WHERE id = ?", id));
    if (records.empty()) return base::make_error(ErrorCode::kNotFound, "no such box: {}", id);
    return std::move(records.front());
}

Result<bool> StateStore::has_box(const std::string& id) {
    const std::scoped_lock lock(mutex_);
    Statement query = TRY(database_.prepare("SELECT 1 FROM boxes WHERE id = ?"));
    return query.bind(1, id).step();
}

Result<bool> StateStore::has_name(const std::string& name) {
    const std::scoped_lock lock(mutex_);
    Statement query = TRY(database_.prepare("SELECT 1 FROM boxes WHERE name = ?"));
    return query.bind(1, name).step();
}

Result<BoxRecord> StateStore::find_box(const std::string& id_or_name) {
    for (const char* condition : {"WHERE id = ?", "WHERE name = ?"}) {
        auto records = TRY(select(condition, id_or_name));
        if (!records.empty()) return std::move(records.front());
    }
    // Ids are of [0-9a-z]: nothing else can be a prefix, and no character of LIKE or GLOB gets through.
    if (!id_or_name.empty() &&
        id_or_name.find_first_not_of("0123456789abcdefghijklmnopqrstuvwxyz") == std::string::npos) {
        auto records = TRY(select("WHERE id GLOB ? || '*' LIMIT 2", id_or_name));
        if (records.size() == 1) return std::move(records.front());
        if (records.size() > 1)
            return base::make_error(ErrorCode::kInvalidArgument,
                                    "more than one box has an id that starts with '{}'", id_or_name);
    }
    return base::make_error(ErrorCode::kNotFound, "no such box: {}", id_or_name);
}

Result<std::vector<BoxRecord>> StateStore::boxes() {
    return select("ORDER BY created_at DESC, id", {});
}

Result<std::vector<std::string>> StateStore::box_ids() {
    const std::scoped_lock lock(mutex_);
    Statement query = TRY(database_.prepare("SELECT id FROM boxes"));
    std::vector<std::string> ids;
    while (TRY(query.step())) ids.push_back(query.text(0));
    return ids;
}

Result<void> StateStore::set_state(const std::string& id, const BoxState& state) {
    const std::scoped_lock lock(mutex_);
    Statement update = TRY(database_.prepare("UPDATE boxes SET state = ? WHERE id = ?"));
    return update.bind(1, encode(state)).bind(2, id).run();
}

Result<void> StateStore::set_config(const BoxConfig& config) {
    const std::scoped_lock lock(mutex_);
    Statement update = TRY(database_.prepare("UPDATE boxes SET config = ? WHERE id = ?"));
    return update.bind(1, encode(config)).bind(2, config.id).run();
}

Result<bool> StateStore::remove_box(const std::string& id) {
    const std::scoped_lock lock(mutex_);
    Statement remove = TRY(database_.prepare("DELETE FROM boxes WHERE id = ?"));
    TRY(remove.bind(1, id).run());
    return database_.changes() > 0;
}

Result<std::vector<std::string>> StateStore::boxes_of_image(const std::string& image_id) {
    const std::scoped_lock lock(mutex_);
    Statement query = TRY(database_.prepare("SELECT name FROM boxes WHERE image = ? ORDER BY name"));
    query.bind(1, image_id);
    std::vector<std::string> names;
    while (TRY(query.step())) names.push_back(query.text(0));
    return names;
}

Result<void> StateStore::add_base(const std::string& base, const std::string& image_id) {
    const std::scoped_lock lock(mutex_);
    Transaction transaction = TRY(Transaction::begin(database_));
    Statement insert = TRY(database_.prepare("INSERT OR IGNORE INTO bases (id, created_at) VALUES (?, ?)"));
    TRY(insert.bind(1, base).bind(2, base::realtime_ns()).run());
    Statement refer = TRY(database_.prepare("INSERT OR IGNORE INTO image_bases (image, base) VALUES (?, ?)"));
    TRY(refer.bind(1, image_id).bind(2, base).run());
    return transaction.commit();
}

Result<bool> StateStore::has_base(const std::string& base, const std::string& image_id) {
    const std::scoped_lock lock(mutex_);
    Statement query = TRY(database_.prepare("SELECT 1 FROM image_bases WHERE image = ? AND base = ?"));
    return query.bind(1, image_id).bind(2, base).step();
}

Result<void> StateStore::release_image(const std::string& image_id) {
    const std::scoped_lock lock(mutex_);
    Statement remove = TRY(database_.prepare("DELETE FROM image_bases WHERE image = ?"));
    return remove.bind(1, image_id).run();
}

Result<std::vector<std::string>> StateStore::take_unused_bases() {
    const std::scoped_lock lock(mutex_);
    Statement take = TRY(database_.prepare(
        "DELETE FROM bases WHERE NOT EXISTS (SELECT 1 FROM image_bases WHERE base = bases.id) "
        "AND NOT EXISTS (SELECT 1 FROM boxes WHERE base = bases.id) RETURNING id"));
    std::vector<std::string> bases;
    while (TRY(take.step())) bases.push_back(take.text(0));
    return bases;
}

Result<std::string> StateStore::fact(const std::string& key) {
    const std::scoped_lock lock(mutex_);
    Statement query = TRY(database_.prepare("SELECT value FROM facts WHERE key = ?"));
    if (!TRY(query.bind(1, key).step())) return std::string();
    return query.text(0);
}

Result<void> StateStore::set_fact(const std::string& key, const std::string& value) {
    const std::scoped_lock lock(mutex_);
    Statement insert = TRY(database_.prepare("INSERT OR REPLACE INTO facts (key, value) VALUES (?, ?)"));
    return insert.bind(1, key).bind(2, value).run();
}

Result<std::string> host_boot_id() {
    std::string id = TRY(base::read_file("/proc/sys/kernel/random/boot_id", 64));
    while (!id.empty() && id.back() == '\n') id.pop_back();
    return id;
}

}  // namespace boxlite::runtime
