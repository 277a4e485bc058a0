#include "image/test_registry.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "image/test_tar.h"

namespace boxlite::image::testing {

RealRegistry::RealRegistry(const Options& options) {
    std::string config = fmt::format(
        "version: 0.1\nlog: {{level: info, formatter: json, accesslog: {{disabled: true}}}}\n"
        "storage: {{filesystem: {{rootdirectory: {}/data}}}}\n",
        dir_.path());
    std::string tls;
    if (options.tls) {
        run_or_fail({"openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
                     "/CN=registry", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout",
                     dir_.path() + "/key.pem", "-out", certificate()});
        tls = fmt::format(", tls: {{certificate: {}, key: {}/key.pem}}", certificate(), dir_.path());
    }
    config += fmt::format("http: {{addr: \"127.0.0.1:0\"{}}}\n", tls);
    if (!options.htpasswd.empty())
        config += fmt::format("auth: {{htpasswd: {{realm: test, path: {}}}}}\n",
                              write_file(dir_.path() + "/htpasswd", options.htpasswd));
    auto pipe = base::make_pipe().value();
    auto process = base::Process::spawn(
        {.argv = {"docker-registry", "serve", write_file(dir_.path() + "/config.yml", config)},
         .fds = {{pipe.second.get(), 1}, {pipe.second.get(), 2}}});
    EXPECT_TRUE(process.ok()) << (process.ok() ? "" : process.error().message);
    if (!process.ok()) return;
    process_ = std::make_unique<base::Process>(std::move(process).value());
    output_ = std::move(pipe.first);
    pipe.second.reset();
    wait_until_it_listens();
    drain_ = std::jthread([fd = output_.get()] {
        char buffer[4096];
        while (::read(fd, buffer, sizeof buffer) > 0) {
        }
    });
}

RealRegistry::~RealRegistry() {
    if (!process_) return;
    (void)process_->signal(SIGKILL);
    (void)process_->wait();
}

void RealRegistry::wait_until_it_listens() {
    constexpr std::string_view kListening = "listening on ";
    std::string text;
    char buffer[4096];
    for (;;) {
        pollfd entry{output_.get(), POLLIN, 0};
        const bool ready = ::poll(&entry, 1, 60'000) > 0;
        const ssize_t n = ready ? ::read(output_.get(), buffer, sizeof buffer) : 0;
        if (n <= 0) {
            ADD_FAILURE() << "docker-registry does not start: " << text;
            return;
        }
        text.append(buffer, static_cast<size_t>(n));
        const size_t at = text.find(kListening);
        if (at == std::string::npos || text.find('"', at) == std::string::npos) continue;
        host_ = text.substr(at + kListening.size(), text.find_first_of(",\"", at) - at - kListening.size());
        return;
    }
}

uint16_t RealRegistry::port() const {
    return static_cast<uint16_t>(std::stoi(host_.substr(host_.rfind(':') + 1)));
}

}  // namespace boxlite::image::testing
