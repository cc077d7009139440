// SPDX-License-Identifier: MIT
#include "http_client.h"

#include <curl/curl.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <memory>

#include "text.h"

namespace swift {

namespace {

constexpr long connect_timeout_ms = 10000;
constexpr std::size_t token_max = 4096;

// Of libcurl, what is used. Never unloaded: TLS libraries do not expect it.
struct Curl {
	decltype(&::curl_global_init) global_init = nullptr;
	decltype(&::curl_easy_init) easy_init = nullptr;
	decltype(&::curl_easy_cleanup) easy_cleanup = nullptr;
	decltype(&::curl_easy_reset) easy_reset = nullptr;
	decltype(&::curl_easy_setopt) easy_setopt = nullptr;
	decltype(&::curl_easy_perform) easy_perform = nullptr;
	decltype(&::curl_easy_getinfo) easy_getinfo = nullptr;
	decltype(&::curl_easy_strerror) easy_strerror = nullptr;
	decltype(&::curl_slist_append) slist_append = nullptr;
	decltype(&::curl_slist_free_all) slist_free_all = nullptr;
};

template <typename Function> bool find(void *library, const char *name, Function &function)
{
	function = reinterpret_cast<Function>(dlsym(library, name));
	return function != nullptr;
}

Result<Curl> load_curl()
{
	void *library = nullptr;
	Curl c;

	// Debian's two builds of it.
	for (const char *name : {"libcurl.so.4", "libcurl-gnutls.so.4"})
		if (!library)
			library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return Error{"requests over HTTP need libcurl.so.4, which is not there (Debian: apt install libcurl4)"};
	if (!find(library, "curl_global_init", c.global_init) || !find(library, "curl_easy_init", c.easy_init) ||
	    !find(library, "curl_easy_cleanup", c.easy_cleanup) || !find(library, "curl_easy_reset", c.easy_reset) ||
	    !find(library, "curl_easy_setopt", c.easy_setopt) || !find(library, "curl_easy_perform", c.easy_perform) ||
	    !find(library, "curl_easy_getinfo", c.easy_getinfo) || !find(library, "curl_easy_strerror", c.easy_strerror) ||
	    !find(library, "curl_slist_append", c.slist_append) || !find(library, "curl_slist_free_all", c.slist_free_all))
		return Error{"libcurl.so.4 is not the library that it should be"};
	if (c.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return Error{"libcurl does not start"};
	return c;
}

struct Sink {
	std::string *body;
	std::size_t most = 0;
	bool too_long = false;
};

std::size_t take_part(char *data, std::size_t size, std::size_t n, void *to)
{
	auto *sink = static_cast<Sink *>(to);

	if (sink->body->size() + size * n > sink->most) {
		sink->too_long = true;
		return 0;
	}
	sink->body->append(data, size * n);
	return size * n;
}

int look_whether_cancelled(void *of, curl_off_t, curl_off_t, curl_off_t, curl_off_t)
{
	return (*static_cast<const std::function<bool()> *>(of))() ? 1 : 0;
}

class Client {
public:
	explicit Client(const Curl &curl) : curl_(curl), handle_(curl.easy_init(), curl.easy_cleanup) {}

	Result<HttpReply> post(const HttpRequest &request)
	{
		if (!handle_)
			return Error{"no memory for a request"};

		void *h = handle_.get();
		const auto set = curl_.easy_setopt;
		std::array<char, CURL_ERROR_SIZE> why{};
		HttpReply reply;
		Sink sink{&reply.body, request.most_bytes};
		std::unique_ptr<curl_slist, decltype(curl_.slist_free_all)> headers(nullptr, curl_.slist_free_all);

		// "Expect:": bodies are small, and an answer to that question costs a round trip.
		for (const std::string &header : request.headers)
			headers.reset(curl_.slist_append(headers.release(), header.c_str()));
		headers.reset(curl_.slist_append(headers.release(), "Expect:"));
		curl_.easy_reset(h);
		set(h, CURLOPT_URL, request.url.c_str());
		set(h, CURLOPT_PROTOCOLS_STR, "http,https");
		set(h, CURLOPT_NOSIGNAL, 1L);
		set(h, CURLOPT_ACCEPT_ENCODING, "");
		set(h, CURLOPT_USERAGENT, "tcp_swift");
		set(h, CURLOPT_CONNECTTIMEOUT_MS, connect_timeout_ms);
		set(h, CURLOPT_TIMEOUT_MS, static_cast<long>(request.timeout_s * 1000));
		set(h, CURLOPT_HTTPHEADER, headers.get());
		if (request.get) {
			set(h, CURLOPT_HTTPGET, 1L);
		} else {
			set(h, CURLOPT_POSTFIELDS, request.body.data());
			set(h, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
		}
		set(h, CURLOPT_WRITEFUNCTION, take_part);
		set(h, CURLOPT_WRITEDATA, &sink);
		set(h, CURLOPT_ERRORBUFFER, why.data());
		if (request.cancelled) {
			set(h, CURLOPT_NOPROGRESS, 0L);
			set(h, CURLOPT_XFERINFOFUNCTION, look_whether_cancelled);
			set(h, CURLOPT_XFERINFODATA, &request.cancelled);
		}
		if (!request.ca_file.empty())
			set(h, CURLOPT_CAINFO, request.ca_file.c_str());

		const CURLcode code = curl_.easy_perform(h);

		if (sink.too_long)
			return Error{request.url + ": the answer is longer than " + std::to_string(request.most_bytes) + " bytes"};
		if (code != CURLE_OK)
			return Error{request.url + ": " + std::string(trim(why[0] ? why.data() : curl_.easy_strerror(code)))};
		curl_.easy_getinfo(h, CURLINFO_RESPONSE_CODE, &reply.status);
		return reply;
	}

private:
	Curl curl_;
	std::unique_ptr<void, decltype(Curl::easy_cleanup)> handle_;
};

// What stands between "://" and the path.
std::string_view authority_of(std::string_view url)
{
	const auto at = url.find("://");

	if (at == std::string_view::npos)
		return {};
	url.remove_prefix(at + 3);
	return url.substr(0, url.find_first_of("/?#"));
}

} // namespace

Result<HttpPost> http_client()
{
	ASSIGN_OR_RETURN(const auto curl, load_curl());

	return HttpPost([client = std::make_shared<Client>(curl)](const HttpRequest &r) { return client->post(r); });
}

Result<void> check_url(const std::string &what, const std::string &url)
{
	const std::string_view host = authority_of(url);
	const auto bad = [](unsigned char c) { return c <= ' ' || c == 0x7f; };

	if ((!url.starts_with("http://") && !url.starts_with("https://")) || host.empty() ||
	    host.find('@') != std::string_view::npos || std::any_of(url.begin(), url.end(), bad))
		return Error{what, url, "http://HOST[:PORT][/PATH] or https://...; no user or password in it"};
	return {};
}

bool is_loopback_url(std::string_view url)
{
	std::string_view host = authority_of(url);

	if (host.starts_with('['))
		return host.substr(0, host.find(']') + 1) == "[::1]";
	host = host.substr(0, host.find(':'));
	return host == "localhost" || (host.starts_with("127.") && std::all_of(host.begin(), host.end(), [](char c) {
					       return c == '.' || (c >= '0' && c <= '9');
				       }));
}

Result<std::string> bearer_header(const std::string &what, std::string_view text)
{
	const std::string_view token = trim(text);

	if (token.empty() || token.size() > token_max ||
	    std::any_of(token.begin(), token.end(), [](char c) { return c <= ' ' || c > '~'; }))
		return Error{what + ": no token in it: one line of printable ASCII, 1 to " + std::to_string(token_max) + " characters"};
	return "Authorization: Bearer " + std::string(token);
}

} // namespace swift
