#include "image/test_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

namespace boxlite::image::testing {

namespace {

sockaddr_in loopback(uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

base::Fd listen_on_loopback(uint16_t* port) {
    base::Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = loopback(0);
    socklen_t length = sizeof address;
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(::listen(fd.get(), 64), 0);
    ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length);
    *port = ntohs(address.sin_port);
    return fd;
}

// Waits until `fd` can be read; false when the server ends.
bool readable(int fd, int stop) {
    pollfd entries[] = {{fd, POLLIN, 0}, {stop, POLLIN, 0}};
    while (::poll(entries, 2, -1) < 0 && errno == EINTR) {
    }
    return entries[1].revents == 0;
}

void signal_stop(const base::Fd& stop) {
    (void)::eventfd_write(stop.get(), 1);
}

bool send_all(int fd, std::string_view data) {
    while (!data.empty()) {
        const ssize_t n = ::send(fd, data.data(), data.size(), MSG_NOSIGNAL);
        if (n <= 0) return false;
        data.remove_prefix(static_cast<size_t>(n));
    }
    return true;
}

// Ends a connection with a reset instead of an orderly end.
void reset_connection(int fd) {
    const linger now{1, 0};
    ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

std::optional<Request> read_request(int fd, int stop) {
    std::string data;
    size_t end = std::string::npos;
    size_t length = 0;
    Request request;
    char buffer[16384];
    while (end == std::string::npos || data.size() < end + 4 + length) {
        if (!readable(fd, stop)) return std::nullopt;
        const ssize_t n = ::read(fd, buffer, sizeof buffer);
        if (n <= 0) return std::nullopt;
        data.append(buffer, static_cast<size_t>(n));
        if (end != std::string::npos || (end = data.find("\r\n\r\n")) == std::string::npos) continue;
        size_t line = data.find("\r\n");
        const std::string first = data.substr(0, line);
        request.method = first.substr(0, first.find(' '));
        request.target = first.substr(first.find(' ') + 1, first.rfind(' ') - first.find(' ') - 1);
        while (line < end) {
            const size_t next = data.find("\r\n", line + 2);
            const std::string header = data.substr(line + 2, next - line - 2);
            std::string name = header.substr(0, header.find(':'));
            std::transform(name.begin(), name.end(), name.begin(),
                           [](unsigned char c) { return std::tolower(c); });
            request.headers[name] = header.substr(std::min(header.size(), header.find(':') + 2));
            line = next;
        }
        if (request.headers.contains("content-length"))
            length = std::stoul(request.headers["content-length"]);
    }
    request.body = data.substr(end + 4);
    return request;
}

}  // namespace

TestServer::TestServer(Handler handler) : handler_(std::move(handler)), stop_(::eventfd(0, EFD_CLOEXEC)) {
    listener_ = listen_on_loopback(&port_);
    acceptor_ = std::jthread([this] { accept_loop(); });
}

TestServer::~TestServer() {
    signal_stop(stop_);
    acceptor_.join();
    connections_.clear();
}

std::string TestServer::host() const {
    return fmt::format("127.0.0.1:{}", port_);
}

std::vector<Request> TestServer::requests() {
    const std::lock_guard lock(mutex_);
    return requests_;
}

size_t TestServer::count(std::string_view method, std::string_view part) {
    const auto all = requests();
    return static_cast<size_t>(std::count_if(all.begin(), all.end(), [&](const Request& r) {
        return r.method == method && r.target.find(part) != std::string::npos;
    }));
}

void TestServer::accept_loop() {
    while (readable(listener_.get(), stop_.get())) {
        base::Fd connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (!connection.valid()) continue;
        connections_.emplace_back([this, fd = std::move(connection)]() mutable { serve(std::move(fd)); });
    }
}

void TestServer::serve(base::Fd connection) {
    const auto request = read_request(connection.get(), stop_.get());
    if (!request) return;
    Reply reply;
    {
        const std::lock_guard lock(mutex_);
        requests_.push_back(*request);
        reply = handler_(*request);
    }
    std::string head = fmt::format("HTTP/1.1 {} X\r\nConnection: close\r\nContent-Length: {}\r\n",
                                   reply.status, reply.body.size());
    for (const auto& [name, value] : reply.headers) head += fmt::format("{}: {}\r\n", name, value);
    std::string_view body = request->method == "HEAD" ? std::string_view() : std::string_view(reply.body);
    const bool cut = reply.cut_after && *reply.cut_after < body.size();
    if (cut) body = body.substr(0, *reply.cut_after);
    if (!send_all(connection.get(), head + "\r\n") || !send_all(connection.get(), body)) return;
    if (reply.stall) {
        pollfd entry{stop_.get(), POLLIN, 0};
        while (::poll(&entry, 1, -1) < 0 && errno == EINTR) {
        }
    }
    ::shutdown(connection.get(), SHUT_WR);
}

CuttingProxy::CuttingProxy(uint16_t port, std::function<std::optional<size_t>(int)> budget)
    : target_(port), budget_(std::move(budget)), stop_(::eventfd(0, EFD_CLOEXEC)) {
    listener_ = listen_on_loopback(&port_);
    acceptor_ = std::jthread([this] {
        for (int n = 0; readable(listener_.get(), stop_.get()); ++n) {
            base::Fd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
            if (!client.valid()) continue;
            relays_.emplace_back([this, fd = std::move(client), limit = budget_(n)]() mutable {
                relay(std::move(fd), limit);
            });
        }
    });
}

CuttingProxy::~CuttingProxy() {
    signal_stop(stop_);
    acceptor_.join();
    relays_.clear();
}

std::string CuttingProxy::host() const {
    return fmt::format("127.0.0.1:{}", port_);
}

void CuttingProxy::relay(base::Fd client, std::optional<size_t> budget) {
    const base::Fd server(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in address = loopback(target_);
    if (::connect(server.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) < 0) return;
    size_t sent = 0;
    char buffer[16384];
    for (;;) {
        pollfd entries[] = {{client.get(), POLLIN, 0}, {server.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
        if (::poll(entries, 3, -1) < 0 || entries[2].revents) return;
        for (const int from : {0, 1}) {
            if (!entries[from].revents) continue;
            const ssize_t n = ::read(entries[from].fd, buffer, sizeof buffer);
            if (n <= 0) return;
            std::string_view data(buffer, static_cast<size_t>(n));
            if (from == 1 && budget) data = data.substr(0, *budget - sent);
            if (!send_all(entries[1 - from].fd, data)) return;
            if (from == 1) sent += data.size();
            if (budget && sent == *budget) return reset_connection(client.get());
        }
    }
}

Reply serve_image(const Request& request, const TestImage& image, std::string_view repository,
                  std::string_view tag) {
    for (const Blob& blob : image.blobs()) {
        const std::string digest = blob.descriptor.digest.to_string();
        const bool manifest = blob.descriptor.digest == image.manifest.descriptor.digest;
        const std::string path =
            fmt::format("/v2/{}/{}/{}", repository, manifest ? "manifests" : "blobs", digest);
        if (request.target != path &&
            !(manifest && request.target == fmt::format("/v2/{}/manifests/{}", repository, tag)))
            continue;
        Reply reply{
            .body = blob.content,
            .headers = {{"Content-Type", manifest ? blob.descriptor.media_type : "application/octet-stream"},
                        {"Docker-Content-Digest", digest}}};
        const auto range = request.headers.find("range");
        if (range == request.headers.end()) return reply;
        const size_t start = std::stoul(range->second.substr(std::string("bytes=").size()));
        if (start >= reply.body.size()) return {.status = 416};
        reply.status = 206;
        reply.headers.emplace_back(
            "Content-Range", fmt::format("bytes {}-{}/{}", start, reply.body.size() - 1, reply.body.size()));
        reply.body.erase(0, start);
        return reply;
    }
    return {.status = 404,
            .body = R"({"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]})"};
}

}  // namespace boxlite::image::testing
