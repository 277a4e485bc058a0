// SQLite with errors as values. A Database is used by one thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace boxlite::runtime {

class Database;

// A prepared statement, bound by position from 1. Strings are copied in and out.
class Statement {
  public:
    Statement(Statement&& other) noexcept : statement_(std::exchange(other.statement_, nullptr)) {}
    Statement& operator=(Statement&&) = delete;
    ~Statement();

    Statement& bind(int index, std::string_view text);
    Statement& bind(int index, int64_t number);

    // Whether there is a row to read.
    Result<bool> step();
    // For a statement that returns no rows.
    Result<void> run();

    std::string text(int column) const;
    int64_t number(int column) const;

  private:
    friend class Database;
    explicit Statement(sqlite3_stmt* statement) : statement_(statement) {}
    sqlite3_stmt* statement_;
};

class Database {
  public:
    static Result<Database> open(const std::string& path);
    Database(Database&& other) noexcept
        : path_(std::move(other.path_)), connection_(std::exchange(other.connection_, nullptr)) {}
    Database& operator=(Database&&) = delete;
    ~Database();

    Result<void> execute(const char* sql);
    Result<Statement> prepare(std::string_view sql);
    // Rows changed by the last statement.
    int changes() const;

  private:
    Database(std::string path, sqlite3* connection) : path_(std::move(path)), connection_(connection) {}
    std::string path_;
    sqlite3* connection_;
};

// BEGIN IMMEDIATE; rolled back when it goes without commit().
class Transaction {
  public:
    static Result<Transaction> begin(Database& database);
    Transaction(Transaction&& other) noexcept : database_(std::exchange(other.database_, nullptr)) {}
    Transaction& operator=(Transaction&&) = delete;
    ~Transaction();
    Result<void> commit();

  private:
    explicit Transaction(Database& database) : database_(&database) {}
    Database* database_;
};

}  // namespace boxlite::runtime
