#include "net/dns_message.h"

#include <gtest/gtest.h>

#include "net/dns_testing.h"

namespace boxlite::net::dns {
namespace {

using testing::answer;
using testing::query;

TEST(DnsMessage, Questions) {
    const auto question = parse_question(query("WWW.Example.com", kAaaa, true), false);
    ASSERT_TRUE(question);
    EXPECT_EQ(question->id, 0x1234);
    EXPECT_EQ(question->name, "www.example.com");
    EXPECT_EQ(question->type, kAaaa);
    EXPECT_EQ(question->record_class, kInternet);
    EXPECT_TRUE(question->extended);
    EXPECT_FALSE(parse_question(query("a.example", kA), false)->extended);
    EXPECT_FALSE(parse_question(query("a.example", kA), true));
}

TEST(DnsMessage, WhatIsCutOffOrNoQuestionIsNone) {
    const base::Bytes whole = query("www.example.com", kA, true);
    for (size_t size = 0; size < whole.size(); ++size)
        EXPECT_FALSE(parse_question({whole.data(), size}, false)) << size;
    base::Bytes two = query("a.example", kA);
    two[5] = 2;
    EXPECT_FALSE(parse_question(two, false));
    base::Bytes update = query("a.example", kA);
    update[2] = 0x28;
    EXPECT_FALSE(parse_question(update, false));
    base::Bytes loop = query("a.example", kA);
    loop[12] = 0xc0;
    loop[13] = 12;
    EXPECT_FALSE(parse_question(loop, false));
}

TEST(DnsMessage, AddressesOfAnAnswer) {
    const std::vector<IpAddress> found = {*IpAddress::parse("93.184.216.34"),
                                          *IpAddress::parse("2606:4700::1")};
    const base::Bytes told = answer(query("www.example.com", kA), found);
    ASSERT_TRUE(parse_question(told, true));
    EXPECT_EQ(addresses(told), found);
    EXPECT_FALSE(addresses({told.data(), told.size() - 1}));
}

TEST(DnsMessage, AnswersOfOurOwn) {
    const base::Bytes asked = query("host.boxlite.internal", kA, true);
    const auto question = parse_question(asked, false);
    const std::vector<IpAddress> both = {*IpAddress::parse("192.168.127.254"), *IpAddress::parse("fd00::fe")};
    const base::Bytes answer = make_answer(asked, *question, both);
    EXPECT_EQ(addresses(answer), std::vector<IpAddress>{both[0]});
    const auto told = parse_question(answer, true);
    ASSERT_TRUE(told);
    EXPECT_TRUE(told->extended);
    EXPECT_EQ(told->name, question->name);

    const base::Bytes refused = make_answer(asked, *question, ResponseCode::kNameError);
    ASSERT_TRUE(parse_question(refused, true));
    EXPECT_EQ(refused[3] & 0xf, 3);
    EXPECT_EQ(refused[2] & 0x81, 0x81);  // an answer to one who asked for recursion
    EXPECT_EQ(addresses(refused), std::vector<IpAddress>{});
}

TEST(DnsMessage, Reverse) {
    EXPECT_EQ(reverse_address("34.216.184.93.in-addr.arpa"), IpAddress::parse("93.184.216.34"));
    std::string v6;
    for (int i = 0; i < 31; ++i) v6 += i == 0 ? "1." : "0.";
    EXPECT_EQ(reverse_address(v6 + "2.ip6.arpa"), IpAddress::parse("2000::1"));
    for (const char* name : {"in-addr.arpa", "1.2.3.in-addr.arpa", "1.2.3.4.5.in-addr.arpa",
                             "256.1.1.1.in-addr.arpa", "1.ip6.arpa", "example.com"})
        EXPECT_FALSE(reverse_address(name)) << name;
    const base::Bytes asked = query("34.216.184.93.in-addr.arpa", kPtr);
    const base::Bytes answer = make_pointer(asked, *parse_question(asked, false), "www.example.com");
    ASSERT_TRUE(parse_question(answer, true));
    EXPECT_NE(base::as_text(answer).find(std::string("\3www\7example\3com\0", 17)), std::string_view::npos);
}

}  // namespace
}  // namespace boxlite::net::dns
