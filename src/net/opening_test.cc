#include "net/opening.h"

#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <memory>

namespace boxlite::net {
namespace {

using Kind = Opening::Kind;

// What a real client says first.
base::Bytes client_hello(const char* server_name) {
    const std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context(SSL_CTX_new(TLS_client_method()),
                                                               SSL_CTX_free);
    const std::unique_ptr<SSL, void (*)(SSL*)> ssl(SSL_new(context.get()), SSL_free);
    if (server_name) SSL_set_tlsext_host_name(ssl.get(), server_name);
    SSL_set_bio(ssl.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_connect(ssl.get());
    base::Bytes bytes(BIO_ctrl_pending(SSL_get_wbio(ssl.get())));
    BIO_read(SSL_get_wbio(ssl.get()), bytes.data(), static_cast<int>(bytes.size()));
    return bytes;
}

std::string described(base::ByteView bytes) {
    const Opening opening = read_opening(bytes);
    constexpr const char* kKinds[] = {"incomplete", "other", "host ", "bad"};
    return kKinds[static_cast<size_t>(opening.kind)] + opening.host;
}
std::string described(std::string_view text) {
    return described(base::as_bytes(text));
}

TEST(Opening, TlsServerName) {
    const base::Bytes hello = client_hello("WWW.example.com");
    EXPECT_EQ(described(hello), "host www.example.com");
    for (size_t size = 0; size < hello.size(); ++size)
        EXPECT_EQ(described({hello.data(), size}), "incomplete") << size;
    base::Bytes more = hello;
    more.resize(more.size() + 100);
    EXPECT_EQ(described(more), "host www.example.com");
    EXPECT_EQ(described(client_hello(nullptr)), "bad");
}

TEST(Opening, ATlsOpeningInManyRecords) {
    const base::Bytes hello = client_hello("a.example");
    base::Bytes split;
    for (size_t at = 5; at < hello.size(); at += 7) {
        const size_t size = std::min<size_t>(7, hello.size() - at);
        split.insert(split.end(), {22, 3, 1, 0, static_cast<uint8_t>(size)});
        split.insert(split.end(), hello.begin() + static_cast<ptrdiff_t>(at),
                     hello.begin() + static_cast<ptrdiff_t>(at + size));
    }
    EXPECT_EQ(described(split), "host a.example");
}

// A ClientHello made by hand, of these extensions (RFC 8446, 4.1.2).
std::string hello_with(const std::string& extensions) {
    const auto two = [](size_t n) { return std::string{static_cast<char>(n >> 8), static_cast<char>(n)}; };
    const std::string body =
        std::string(2 + 32, '\0') + std::string("\0\0\2\x13\1\1\0", 7) + two(extensions.size()) + extensions;
    return std::string("\x16\3\1", 3) + two(body.size() + 4) + std::string("\1\0", 2) + two(body.size()) +
           body;
}

TEST(Opening, TlsThatHidesItsServer) {
    const std::string named("\0\0\0\x08\0\6\0\0\3a.b", 12);
    EXPECT_EQ(described(hello_with(named)), "host a.b");
    EXPECT_EQ(described(hello_with(named + std::string("\xfe\x0d\0\1\0", 5))), "bad");  // ECH
    EXPECT_EQ(described(hello_with(named + named)), "bad");
    EXPECT_EQ(described(hello_with(std::string("\0\0\0\x08\0\6\0\0\3a\0b", 12))), "bad");
    EXPECT_EQ(described(hello_with(std::string("\0\0\0\x08\0\7\0\0\3a.b", 12))), "bad");
    EXPECT_EQ(described(hello_with(std::string("\0\0\0\5\0\3\1\0\0", 9))), "bad");
    EXPECT_EQ(described(hello_with("")), "bad");
}

TEST(Opening, Http) {
    EXPECT_EQ(described("GET / HTTP/1.1\r\nAccept: */*\r\nHOST:  Example.com:8080 \r\n\r\n"),
              "host example.com");
    EXPECT_EQ(described("GET / HTTP/1.1\r\nHost: [2001:db8::1]:80\r\n\r\n"), "host 2001:db8::1");
    EXPECT_EQ(described("POST / HTTP/1.1\nHost: a.example\n\n"), "host a.example");
    EXPECT_EQ(described("GET http://other.example/x HTTP/1.1\r\nHost: a.example\r\n\r\n"),
              "host other.example");
    EXPECT_EQ(described("GET http://a.example@other.example/x HTTP/1.1\r\nHost: a.example\r\n\r\n"),
              "host other.example");
    EXPECT_EQ(described("CONNECT other.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n"),
              "host other.example");
    EXPECT_EQ(described("GET / HTTP/1.0\r\n\r\n"), "bad");
    EXPECT_EQ(described("GET / HTTP/1.1\r\nHost: a.example\r\nHost: b.example\r\n\r\n"), "bad");
    EXPECT_EQ(described(std::string_view("GET / HTTP/1.1\r\nHost: evil\0.a.example\r\n\r\n", 41)), "bad");
    EXPECT_EQ(described("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), "bad");
    const std::string whole = "DELETE / HTTP/1.1\r\nHost: a.example\r\n\r\n";
    for (size_t size = 0; size < whole.size(); ++size)
        EXPECT_EQ(described(whole.substr(0, size)), "incomplete") << size;
}

// A server may take any method, or none that we know, and go on with the connection.
TEST(Opening, HttpOfAnyMethod) {
    EXPECT_EQ(described("PROPFIND / HTTP/1.1\r\nHost: a.example\r\n\r\n"), "host a.example");
    EXPECT_EQ(described("x / HTTP/1.1\r\n\r\n"), "bad");
    EXPECT_EQ(described("GET /\r\n\r\n"), "bad");
    EXPECT_EQ(described("GET\t/\tHTTP/1.1\r\nHost: a.example\r\n\r\n"), "bad");
    EXPECT_EQ(described("\r\n\r\nGET / HTTP/1.1\r\nHost: b.example\r\n\r\n"), "host b.example");
    EXPECT_EQ(described("FOO / HT"), "incomplete");
    EXPECT_EQ(described("FOO / HTX\r\n"), "other");
}

TEST(Opening, OtherProtocols) {
    for (const char* text : {"SSH-2.0-OpenSSH_9.2\r\n", "EHLO me\r\n", "MAIL FROM:<a@b.example> SIZE=3\r\n",
                             "*1\r\n$4\r\nPING\r\n", "\1\2\3"})
        EXPECT_EQ(described(text), "other") << text;
    EXPECT_EQ(described(std::string_view("\x16\x05\0\0\0", 5)), "other");
}

}  // namespace
}  // namespace boxlite::net
