#include "net/mesh.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.h"
#include "base/log.h"

namespace boxlite::net {

namespace {

// Of a link's socket, each way: several of the largest frames.
constexpr int kSocketBuffer = 1 << 20;
// Of frames that wait for one that is slow: there may be many.
constexpr size_t kMaxQueued = 512 << 10;
constexpr size_t kMaxMemberFile = 4096;

std::string member_file(const std::string& socket) {
    return socket + ".member";
}

Result<Member> read_member(const std::string& path) {
    const std::string text = TRY(base::read_file(path, kMaxMemberFile));
    v1::NetworkMember message;
    if (!message.ParseFromString(text)) return base::make_error(ErrorCode::kNetwork, "'{}' is damaged", path);
    return member_from(message);
}

}  // namespace

Result<std::unique_ptr<Mesh>> Mesh::join(base::EventLoop& loop, const std::string& folder, const Member& self,
                                         Handlers handlers) {
    std::unique_ptr<Mesh> mesh(new Mesh(loop, self, std::move(handlers)));
    TRY(base::make_directories(folder, 0700));
    // So of two that start at the same time, one finds the other.
    const base::FileLock joining = TRY(base::FileLock::acquire(folder + "/.lock"));
    TRY_CONTEXT(mesh->listen(folder), "join a private network");
    TRY_CONTEXT(mesh->connect_to_others(folder), "join a private network");
    return mesh;
}

Mesh::~Mesh() {
    if (listener_.valid()) loop_.unwatch(listener_.get());
}

Result<void> Mesh::listen(const std::string& folder) {
    const std::string path = folder + "/" + self_.box_id;
    const std::string file = member_file(path);
    ::unlink(path.c_str());
    ::unlink(file.c_str());
    const std::string message = to_message(self_).SerializeAsString();
    const base::Fd out = TRY(base::open_file(file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
    TRY(base::write_all(out.get(), base::as_bytes(message)));
    listener_ = TRY(base::listen_unix(path, SOCK_SEQPACKET));
    (void)::chmod(path.c_str(), 0600);
    if (::listen(listener_.get(), kMaxLinks) < 0)
        return base::errno_error(ErrorCode::kNetwork, "listen on '{}'", path);
    return loop_.watch(listener_.get(), EPOLLIN, [this](uint32_t) { accept(); });
}

Result<void> Mesh::connect_to_others(const std::string& folder) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
        const std::string name = entry.path().filename();
        if (name == self_.box_id || name.find('.') != std::string::npos) continue;
        TRY(connect_to(entry.path()));
    }
    if (error) return Error::from_errno(ErrorCode::kNetwork, fmt::format("list '{}'", folder), error.value());
    return {};
}

Result<void> Mesh::connect_to(const std::string& path) {
    auto socket = base::connect_unix(path, SOCK_SEQPACKET | SOCK_NONBLOCK);
    if (!socket.ok()) {
        if (errno == ECONNREFUSED) {
            ::unlink(path.c_str());
            ::unlink(member_file(path).c_str());
        } else {
            base::log_warn("no link to another box of the network", {{"error", socket.error().message}});
        }
        return {};
    }
    auto member = read_member(member_file(path));
    if (!member.ok()) {
        base::log_warn("no link to another box of the network", {{"error", member.error().message}});
        return {};
    }
    Link* link = add_link(std::move(socket).value());
    if (!link) return {};
    if (!introduce(*link, std::move(member).value())) return end(*link), Result<void>();
    link->port->send(base::as_bytes(to_message(self_).SerializeAsString()));
    return {};
}

void Mesh::accept() {
    base::Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket.valid()) (void)add_link(std::move(socket));
}

// nullptr when there are too many.
Mesh::Link* Mesh::add_link(base::Fd socket) {
    if (links_.size() >= kMaxLinks) return nullptr;
    (void)::setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUF, &kSocketBuffer, sizeof kSocketBuffer);
    Link& link = links_.emplace_back();
    link.port =
        std::make_unique<FramePort>(loop_, std::move(socket), FramePort::Rates{},
                                    FramePort::Handlers{
                                        .frame = [this, &link](base::ByteView f) { received(link, f); },
                                        .writable = [] {},
                                        .closed = [this, &link] { end(link); },
                                    },
                                    kMaxQueued);
    if (link.port->start().ok()) return &link;
    links_.pop_back();
    return nullptr;
}

void Mesh::received(Link& link, base::ByteView frame) {
    if (link.over) return;
    if (link.member) return handlers_.frame(*link.member, frame);
    v1::NetworkMember message;
    if (message.ParseFromArray(frame.data(), static_cast<int>(frame.size())))
        if (auto member = member_from(message); member.ok() && introduce(link, std::move(member).value()))
            return;
    end(link);
}

// Who was linked first keeps what it is known by; one that was started again takes its own place.
bool Mesh::introduce(Link& link, Member member) {
    if (!subnets_.v4.contains(member.v4) || !subnets_.v6.contains(member.v6) || member.v4 == self_.v4 ||
        member.v6 == self_.v6 || member.box_id == self_.box_id || member.mac == self_.mac)
        return false;
    for (const IpAddress& address : {member.v4, member.v6}) {
        const auto known = by_address_.find(address);
        if (known == by_address_.end()) continue;
        if (known->second->member->box_id != member.box_id) return false;
        end(*known->second);
    }
    link.member = std::move(member);
    by_address_[link.member->v4] = by_address_[link.member->v6] = &link;
    return true;
}

// The link itself goes when nothing of it is under way any more.
void Mesh::end(Link& link) {
    if (std::exchange(link.over, true)) return;
    if (link.member)
        for (const IpAddress& address : {link.member->v4, link.member->v6})
            if (const auto known = by_address_.find(address);
                known != by_address_.end() && known->second == &link)
                by_address_.erase(known);
    if (link.member) handlers_.left(*link.member);
    loop_.post([this, &link, alive = std::weak_ptr(alive_)] {
        if (!alive.expired()) links_.remove_if([&](const Link& one) { return &one == &link; });
    });
}

const Member* Mesh::find(const IpAddress& address) const {
    const auto found = by_address_.find(address);
    return found == by_address_.end() ? nullptr : &*found->second->member;
}

std::vector<const Member*> Mesh::members() const {
    std::vector<const Member*> all;
    for (const auto& [address, link] : by_address_)
        if (address.is_v4()) all.push_back(&*link->member);
    return all;
}

void Mesh::send(const Member& to, base::ByteView frame) {
    const auto found = by_address_.find(to.v4);
    if (found != by_address_.end()) found->second->port->send(frame);
}

}  // namespace boxlite::net
