#include "agent/testing_server.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include "agent/container.h"
#include "agent/executions.h"
#include "agent/files.h"
#include "base/event_loop.h"
#include "base/file.h"

namespace boxlite::agent {

namespace {

Result<base::Fd> mount_cgroups(const std::string& at) {
    TRY(base::make_directories(at));
    if (::mount("cgroup2", at.c_str(), "cgroup2", 0, nullptr) < 0)
        return base::errno_error(ErrorCode::kInternal, "mount cgroup2");
    // The hierarchy is the host's one: other tests may be in it at the same time.
    const std::string own = fmt::format("{}/boxlite-test-{}", at, ::getpid());
    TRY(base::make_directories(own));
    return base::open_file(own, O_RDONLY | O_DIRECTORY);
}

}  // namespace

Result<void> serve_for_test(const std::string& dir, const std::string& spec_bytes, bool idle_init,
                            std::vector<base::Fd> streams) {
    const std::string root = dir + "/root";
    if (::unshare(CLONE_NEWNS) < 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) < 0 ||
        ::mount(root.c_str(), root.c_str(), nullptr, MS_BIND, nullptr) < 0)
        return base::errno_error(ErrorCode::kInternal, "make a place for the container");
    const auto spec = TRY(rpc::parse<v1::ContainerSpec>(spec_bytes, "ContainerSpec"));
    const base::Fd cgroups = TRY(mount_cgroups(dir + "/cgroup"));
    const auto container = TRY(Container::create(root, spec, cgroups));
    const auto loop = TRY(base::EventLoop::make());
    Executions executions(*loop);
    Files files(*loop);
    Router router;
    executions.add_routes(router);
    files.add_routes(router);
    files.use(container->root());
    TRY(executions.use(*container, idle_init));

    // The part of Guest that does without a disk.
    router.add<v1::ShutdownRequest>("test", "Terminate",
                                    [&](const v1::ShutdownRequest& request, rpc::Responder responder) {
                                        auto held = std::make_shared<rpc::Responder>(std::move(responder));
                                        executions.terminate(std::chrono::milliseconds(request.grace_ms()),
                                                             [held] { held->reply(std::string_view()); });
                                    });
    std::vector<std::shared_ptr<rpc::Channel>> channels;
    for (base::Fd& stream : streams)
        channels.push_back(TRY(rpc::Channel::make(
            *loop, std::move(stream),
            [&](const rpc::RequestView& request, rpc::Responder responder) {
                router.dispatch(request, std::move(responder));
            },
            [&](const Error&) {
                executions.terminate(std::chrono::milliseconds(0), [&] { loop->stop(); });
            })));
    TRY(loop->run());
    ::unlinkat(cgroups.get(), "box", AT_REMOVEDIR);
    ::rmdir(fmt::format("{}/cgroup/boxlite-test-{}", dir, ::getpid()).c_str());
    return {};
}

}  // namespace boxlite::agent
