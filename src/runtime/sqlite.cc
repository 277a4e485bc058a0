#include "runtime/sqlite.h"

#include <sqlite3.h>

namespace boxlite::runtime {

namespace {

// Long enough to sit out another process's longest transaction on a slow disk.
constexpr int kBusyTimeoutMs = 15'000;

Error sqlite_error(sqlite3* connection, int result, std::string_view what) {
    const int extended = connection ? sqlite3_extended_errcode(connection) : result;
    const char* message = connection ? sqlite3_errmsg(connection) : sqlite3_errstr(result);
    if ((result & 0xff) == SQLITE_FULL)
        return base::make_error(
            ErrorCode::kResourceExhausted,
            "cannot {}: its disk is full; make room there, for instance with `boxlite rm`", what);
    return base::make_error(ErrorCode::kDatabase, "{}: {} (SQLite error {})", what, message, extended);
}

}  // namespace

Statement::~Statement() {
    sqlite3_finalize(statement_);
}

Statement& Statement::bind(int index, std::string_view text) {
    sqlite3_bind_text(statement_, index, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
    return *this;
}

Statement& Statement::bind(int index, int64_t number) {
    sqlite3_bind_int64(statement_, index, number);
    return *this;
}

Result<bool> Statement::step() {
    const int result = sqlite3_step(statement_);
    if (result == SQLITE_ROW) return true;
    if (result == SQLITE_DONE) return false;
    sqlite3* connection = sqlite3_db_handle(statement_);
    if ((result & 0xff) == SQLITE_CONSTRAINT)
        return base::make_error(ErrorCode::kAlreadyExists, "{}", sqlite3_errmsg(connection));
    return sqlite_error(connection, result, fmt::format("use '{}'", sqlite3_db_filename(connection, "main")));
}

Result<void> Statement::run() {
    TRY(step());
    return {};
}

std::string Statement::text(int column) const {
    const auto* data = sqlite3_column_text(statement_, column);
    const auto size = static_cast<size_t>(sqlite3_column_bytes(statement_, column));
    return data ? std::string(reinterpret_cast<const char*>(data), size) : std::string();
}

int64_t Statement::number(int column) const {
    return sqlite3_column_int64(statement_, column);
}

Result<Database> Database::open(const std::string& path) {
    sqlite3* connection = nullptr;
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    const int result = sqlite3_open_v2(path.c_str(), &connection, flags, nullptr);
    Database database(path, connection);
    if (result != SQLITE_OK) return sqlite_error(connection, result, fmt::format("open '{}'", path));
    sqlite3_busy_timeout(connection, kBusyTimeoutMs);
    // A checkpoint at every close would make each short command pay two disk flushes.
    sqlite3_db_config(connection, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
    return database;
}

Database::~Database() {
    if (connection_) sqlite3_close_v2(connection_);
}

Result<void> Database::execute(const char* sql) {
    const int result = sqlite3_exec(connection_, sql, nullptr, nullptr, nullptr);
    if (result != SQLITE_OK) return sqlite_error(connection_, result, fmt::format("use '{}'", path_));
    return {};
}

Result<Statement> Database::prepare(std::string_view sql) {
    sqlite3_stmt* statement = nullptr;
    const int result =
        sqlite3_prepare_v2(connection_, sql.data(), static_cast<int>(sql.size()), &statement, nullptr);
    if (result != SQLITE_OK) return sqlite_error(connection_, result, fmt::format("use '{}'", path_));
    return Statement(statement);
}

int Database::changes() const {
    return sqlite3_changes(connection_);
}

Result<Transaction> Transaction::begin(Database& database) {
    TRY(database.execute("BEGIN IMMEDIATE"));
    return Transaction(database);
}

Transaction::~Transaction() {
    if (database_) (void)database_->execute("ROLLBACK");
}

Result<void> Transaction::commit() {
    TRY(database_->execute("COMMIT"));
    database_ = nullptr;
    return {};
}

}  // namespace boxlite::runtime
