// SPDX-License-Identifier: Apache-2.0
// languages.cpp - the C++ side of test_languages.py: "put" and "check" as languages.c; "checkpoints", "states", "steps", "sync" and "self" look at the rest of ddict.hpp.
#include <ddict_sync.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <map>
#include <thread>

using namespace std::string_literals;
using ddict::Array;
using ddict::Bytes;
using ddict::DDict;
using ddict::Dict;

#define MUST(what)                                                          \
    do {                                                                    \
        if (!(what)) {                                                      \
            std::cerr << __FILE__ << ":" << __LINE__ << ": " #what << "\n"; \
            std::exit(1);                                                   \
        }                                                                   \
    } while (0)

template <class E, class Call> bool raises(int code, Call call) {
    try {
        call();
    } catch (const E &e) {
        return e.code() == code && *e.what() && dynamic_cast<const std::exception *>(&e);
    }
    return false;
}

static const auto one_x = std::tuple(1, "x");
static const auto above = std::tuple(UINT64_MAX, Bytes{"z"});

template <class T> Array<T> counted(ddict::Shape shape) {
    Array<T> a(std::move(shape));
    for (std::size_t i = 0; i < a.size(); i++)
        a.data()[i] = static_cast<T>(static_cast<int>(i));
    return a;
}

template <class Do> void each_type(Do todo) {
    todo(DDICT_INT8, std::int8_t{});
    todo(DDICT_INT16, std::int16_t{});
    todo(DDICT_INT32, std::int32_t{});
    todo(DDICT_INT64, std::int64_t{});
    todo(DDICT_UINT8, std::uint8_t{});
    todo(DDICT_UINT16, std::uint16_t{});
    todo(DDICT_UINT32, std::uint32_t{});
    todo(DDICT_UINT64, std::uint64_t{});
    todo(DDICT_FLOAT32, float{});
    todo(DDICT_FLOAT64, double{});
    todo(DDICT_COMPLEX128, std::complex<double>{});
}

static void put_all(Dict &d) {
    d.put("n", -42);
    d.put(7, 0.5);
    d.put(one_x, "gr\xc3\xbc\xc3\x9f"s);
    d.put(std::pair("deep"s, above), Bytes{"a\0b"s});
    d.put("yes", true);
    d.put("no", false);
    each_type([&](const char *name, auto zero) { d.put(name, counted<decltype(zero)>({3, 4})); });
    auto large = counted<double>({300, 4});
    d.put("large", ddict::ArrayRef{large.data(), {300, 4}}); // not copied
    d.put("one", ddict::ArrayRef<double>{large.data() + 5, {}});
    d.put("row", std::vector<float>{0, 1, 2});
}

static void check_all(Dict &d) {
    MUST(d.get<int>("n") == -42);
    MUST(d.get<double>(7) == 0.5);
    MUST(d.get<std::string>(one_x) == "gr\xc3\xbc\xc3\x9f");
    MUST(d.get<Bytes>(std::pair("deep"s, above)) == Bytes{"a\0b"s});
    MUST(d.get<bool>("yes") && !d.get<bool>("no") && d.get<int>("yes") == 1);
    each_type([&](const char *name, auto zero) {
        MUST(d.get<Array<decltype(zero)>>(name) == counted<decltype(zero)>({3, 4}));
    });
    auto view = d.view_array<double>("large");
    MUST(view.shape() == (ddict::Shape{300, 4}) && view.size() == 1200);
    MUST(view(299, 3) == 1199 && view[4] == 4 && view.span()[7] == 7 && view.end()[-1] == 1199);
    MUST(d.view_array<double>("one").shape().empty() && d.view_array<double>("one")[0] == 5);
    MUST((d.get<std::array<float, 3>>("row") == std::array<float, 3>{0, 1, 2}));
}

static void see_keys(Dict &d) {
    d.clear();
    MUST(d.empty());
    d.put("a", 1);
    d.put(std::tuple("a", 1), 2);
    d.put(std::tuple("a", 2), 3);
    d.put(-5, 4);
    d.put(UINT64_MAX, 5);
    d.put(ddict::Key::raw("\xff", 1), 6);
    MUST(d.size() == 6 && d.keys().size() == 6);
    MUST(d.keys<std::string>() == std::vector<std::string>{"a"});
    MUST(d.keys<int>() == std::vector<int>{-5});
    MUST(d.keys<std::uint64_t>() == std::vector<std::uint64_t>{UINT64_MAX});
    using Pair = std::pair<std::string, int>;
    MUST(d.keys<Pair>().size() == 2 && d.keys<Pair>()[0].first == "a");
    MUST((d.keys<std::tuple<std::string, std::int8_t>>().size() == 2));
    MUST((d.keys<std::tuple<std::string>>().empty()));
    MUST(d.keys_with(std::tuple("a")).size() == 2 && d.keys_with("a").size() == 1);
    MUST(d.local_keys().size() == 6);
    MUST(ddict::Key(7).as<int>() == 7 && !ddict::Key(7).is<std::string>());
    MUST(!ddict::Key(300).is<std::uint8_t>() && !ddict::Key(-1).is<std::uint64_t>());
    MUST((raises<ddict::TypeError>(-EBADMSG, [] { ddict::Key("a").as<int>(); })));
    MUST((raises<ddict::Error>(DDICT_EKEYSIZE, [&] { d.get<int>(std::string(70000, 'x')); })));
}

static void see_values(Dict &d) {
    DDict<std::string, double> x(d);
    d.clear();
    x["a"] = 0.5;
    x["b"] = x["a"];
    double got = x["b"];
    MUST(got == 0.5 && x.get("b") == 0.5 && x.get("none", 7) == 7);
    MUST((raises<ddict::KeyError>(DDICT_ENOKEY, [&] { x["none"].value(); })));
    MUST((raises<ddict::TimeoutError>(-ETIMEDOUT,
                                      [&] { x.wait("none", std::chrono::milliseconds(20)); })));
    MUST(x.wait("a", ddict::default_timeout) == 0.5);
    MUST(!x.put_new("a", 1) && x.put_new("c", 1) && x.put_existing("c", 2));
    MUST(!x.put_existing("none", 1) && x.contains("a") && !x.contains("none"));
    MUST(x.pop("c") == 2 && x.erase("b") && !x.erase("b") && x.size() == 1);
    std::map<std::string, double> many{{"p", 1}, {"q", 2}};
    x.put_many(many);
    auto back = x.get_many(std::vector<std::string>{"q", "none", "p"});
    MUST(back.size() == 3 && back[0] == 2 && !back[1] && back[2] == 1);
    MUST(x.items().size() == 3 && x.local_keys().size() == 3);
    d.put_many(std::map<int, std::vector<int>>{{1, {1, 2}}, {2, {}}});
    MUST((d.get<std::vector<int>>(1) == std::vector<int>{1, 2} &&
          d.get<std::vector<int>>(2).empty()));
    const std::vector<int> small{7}, large(100000, 8); // large ones go alone, in their turn
    d.put_many(std::vector<std::pair<int, std::vector<int>>>{
        {1, small}, {2, small}, {1, large}, {2, large}, {2, small}});
    MUST(d.get<std::vector<int>>(1) == large && d.get<std::vector<int>>(2) == small);
    d.put("n", 1);
    MUST(d.get<bool>("n")); // as C++ stored a bool once
    d.put("n", 2);
    MUST((raises<ddict::TypeError>(-EBADMSG, [&] { d.get<bool>("n"); })));
    d.put("s", "text");
    MUST((raises<ddict::TypeError>(-EBADMSG, [&] { x.get("s"); })));
    MUST((raises<ddict::TypeError>(-EBADMSG, [&] { x.items(); })));
    MUST((raises<ddict::TypeError>(-EBADMSG, [&] { d.get<std::vector<float>>(1); })));
    MUST((raises<ddict::TypeError>(-EBADMSG, [&] { d.get<std::array<int, 3>>(1); })));
    d.put("two", Array<int>({2, 2}, 1));
    MUST((raises<ddict::TypeError>(-EBADMSG, [&] { d.get<std::vector<int>>("two"); })));
    d.put("n", 300);
    MUST((raises<ddict::TypeError>(-EBADMSG, [&] { d.get<std::uint8_t>("n"); })));
    MUST(d.get<double>("n") == 300 && d.get<std::int16_t>("n") == 300);
    d.push("queue", "a");
    d.push("queue", "b");
    MUST(d.bput("pub", 1.5) == 1 && d.bput("pub", std::string("two")) == 2);
    MUST(d.bget<std::string>("pub") == "two" && d.bview("pub").version() == 2);
    MUST(!d.contains("pub"));
    MUST(d.pop<std::string>("queue") == "a" && d.pop<std::string>("queue") == "b");
    d.freeze();
    MUST(d.is_frozen() && (raises<ddict::FrozenError>(DDICT_EFROZEN, [&] { d.put("n", 1); })));
    d.unfreeze();
    MUST(!d.is_frozen() && ddict_len(d.handle(), -1) > 0);
}

static void see_life() {
    ddict::View kept;
    {
        Dict d, other = std::move(d);
        other.put("n", 1);
        kept = other.view("n");
        Dict third = other; // the same handle
        MUST(third.get<int>("n") == 1);
    }
    MUST(kept.as<int>() == 1 && kept.size() == 1 && kept.tag() == DDICT_VALUE_INT);
    ddict::View moved = std::move(kept);
    MUST(moved.as<int>() == 1 && kept.data() == nullptr);
    MUST((raises<ddict::Error>(DDICT_ENODICT, [] { Dict("no.such.dictionary"); })));
    Array<int> a({2, 3});
    a(1, 2) = 5;
    MUST(a.data()[5] == 5 && std::as_const(a)(1, 2) == 5);
    bool outside = false;
    try {
        a(2, 0) = 1;
    } catch (const std::out_of_range &) {
        outside = true;
    }
    MUST(outside);
}

// In a dictionary with a working set of 2.
static void see_checkpoints(Dict &d) {
    DDict<std::string, int> n(d);
    MUST(d.working_set() == 2 && n.checkpoint_id() == 0);
    n.put("a", 1);
    n.checkpoint();
    n.pput("a", 2);
    n.rollback();
    MUST(n.get("a") == 1 && d.checkpoint_id() == 0);
    n.set_checkpoint_id(2);
    n.put("b", 3);
    MUST(n.get("a") == 2);
    n.set_checkpoint_id(0);
    MUST((raises<ddict::RetiredError>(DDICT_ERETIRED, [&] { n.get("a"); })));
    MUST(n.sync_to_newest_checkpoint() == 2 && n.get("b") == 3);
}

template <class Call> std::thread four_times(Call call, int n = 4) {
    return n == 0 ? std::thread() : std::thread([=] {
        auto other = four_times(call, n - 1);
        call();
        if (other.joinable())
            other.join();
    });
}

// What waits for others. Python has put the queue's first value.
static void see_sync(Dict &d) {
    using namespace std::chrono_literals;
    ddict::Queue<std::string> q(d, "q", 2);
    MUST(q.size() == 1 && q.pop(0s) == "first" && !q.pop(20ms));
    MUST(q.push("a") && q.push("b") && !q.push("c", 20ms));
    std::thread late([&] { q.pop(30s); });
    MUST(q.push("c", 30s) && q.pop(30s) == "b" && q.pop(30s) == "c" && !q.pop(0s));
    late.join();
    MUST((raises<ddict::Error>(-EINVAL, [&] { ddict::Queue<int>(d, "q", 3); })));
    q.push("text");
    MUST((raises<ddict::TypeError>(-EBADMSG, [&] { ddict::Queue<int>(d, "q").pop(30s); })));

    MUST(d.add("sum", 5) == 5 && d.add("sum") == 6 && d.get<int>("sum") == 6);
    MUST((raises<ddict::Error>(DDICT_ENOTINT, [&] { d.put("s", "x"), d.add("s"); })));
    std::thread comes([&] { d.put("flag", std::vector<int>{1, 2}); });
    d.wait_for("flag", std::vector<int>{1, 2}, 30s);
    d.wait_for("sum", 6, 30s);
    comes.join();
    MUST((raises<ddict::TimeoutError>(-ETIMEDOUT, [&] { d.wait_for("sum", 7, 20ms); })));

    ddict::Semaphore two(d, "two", 2), same(d, "two", 9);
    MUST(two.acquire() && same.acquire(1s) && two.value() == 0 && !two.acquire(20ms));
    std::thread gives([&] { same.release(); });
    MUST(two.acquire(30s));
    gives.join();
    two.release(2);
    std::atomic<int> inside{0}, most{0};
    four_times([&] {
        for (int i = 0; i < 20; i++) {
            MUST(two.acquire(30s));
            most = std::max<int>(most, ++inside);
            std::this_thread::yield();
            --inside;
            two.release();
        }
    }).join();
    MUST(most <= 2 && two.value() == 2);

    ddict::Barrier all(d, "all", 4);
    std::atomic<int> came{0};
    std::atomic<bool> early{false};
    four_times([&] {
        for (int round = 1; round <= 10; round++) {
            came++;
            all.wait(30s);
            early = early || came < 4 * round;
            all.wait(30s);
        }
    }).join();
    MUST(came == 40 && !early);
    MUST((raises<ddict::TimeoutError>(-ETIMEDOUT, [&] { all.wait(20ms); })));
    MUST((raises<ddict::Error>(-EINVAL, [&] { ddict::Barrier(d, "none", 0); })));
}

// In a dictionary with a folder for its states.
static void see_states(Dict &d) {
    using Ids = std::vector<std::uint64_t>;
    MUST(d.persisted_ids().empty());
    d.put("a", 1);
    d.persist();
    d.put("a", 2);
    d.persist_as(5);
    d.put("b", 3);
    MUST((d.persisted_ids() == Ids{0, 5}));
    MUST((raises<ddict::Error>(-ENOENT, [&] { d.restore(7); })));
    MUST((raises<ddict::Error>(-EINVAL, [&] { d.advance(); })));
    MUST(d.get<int>("b") == 3);
    d.restore(5);
    MUST(d.get<int>("a") == 2 && d.size() == 1);
    ddict_persistence p;
    MUST(ddict_get_persistence(d.handle(), &p) == 0 && p.dir[0] == '/' && !p.read_only);
}

// In one that only reads them.
static void see_steps(Dict &d) {
    d.advance();
    MUST(d.get<int>("a") == 1 && d.is_frozen());
    d.advance();
    MUST(d.get<int>("a") == 2);
    MUST((raises<ddict::Error>(-ENOENT, [&] { d.advance(); })));
    MUST((raises<ddict::FrozenError>(DDICT_EFROZEN, [&] { d.persist(); })));
    d.restore(0);
    MUST(d.get<int>("a") == 1 && d.persisted_ids().size() == 2);
}

int main(int argc, char **argv) {
    std::string what = argc > 1 ? argv[1] : "";
    try {
        Dict d;
        if (what == "put")
            put_all(d);
        else if (what == "check")
            check_all(d);
        else if (what == "checkpoints")
            see_checkpoints(d);
        else if (what == "sync")
            see_sync(d);
        else if (what == "states")
            see_states(d);
        else if (what == "steps")
            see_steps(d);
        else {
            see_keys(d);
            see_values(d);
            see_life();
        }
    } catch (const std::exception &e) {
        std::cerr << "exception: " << e.what() << "\n";
        return 1;
    }
    return 0;
}
