// Which names the box got which addresses for. An address stays what it was told to be for the box's life, so
// that a name that changes its addresses cannot move a connection, and only the oldest of very many go.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "net/address.h"

namespace boxlite::net {

class Pins {
  public:
    static constexpr size_t kMaxAddresses = 16384;
    static constexpr size_t kMaxNames = 64;  // of one address; then the oldest goes

    void add(const IpAddress& address, const std::string& name);
    // Empty for an address that no name led to.
    const std::vector<std::string>& names(const IpAddress& address) const;

  private:
    std::map<IpAddress, std::vector<std::string>> names_;
    std::deque<IpAddress> order_;
};

}  // namespace boxlite::net
