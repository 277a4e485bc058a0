// A real docker-registry on loopback, gone with the object.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "base/file.h"
#include "base/process.h"

namespace boxlite::image::testing {

class RealRegistry {
  public:
    struct Options {
        std::string htpasswd;  // content of the password file; "" lets everyone in
        bool tls = false;      // with a fresh certificate for 127.0.0.1 that nobody trusts
    };
    RealRegistry() : RealRegistry(Options{}) {}
    explicit RealRegistry(const Options& options);
    ~RealRegistry();

    std::string host() const { return host_; }  // "127.0.0.1:port"
    uint16_t port() const;
    std::string certificate() const { return dir_.path() + "/cert.pem"; }

  private:
    void wait_until_it_listens();

    base::TempDir dir_ = base::TempDir::make().value();
    std::unique_ptr<base::Process> process_;
    base::Fd output_;
    std::string host_;
    std::jthread drain_;
};

}  // namespace boxlite::image::testing
