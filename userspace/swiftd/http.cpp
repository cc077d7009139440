// SPDX-License-Identifier: MIT
#include "http.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <list>
#include <map>
#include <mutex>
#include <set>

#include "assets.h"
#include "clock_ns.h"
#include "fd.h"
#include "gzip.h"
#include "interface.h"
#include "system.h"
#include "text.h"
#include "worker.h"

namespace swift {

namespace {

constexpr std::size_t connection_bytes = 24 * 1024; // of a request's line and headers, and of answers' headers
constexpr std::size_t stream_block_bytes = 32 * 1024;
constexpr int stream_send_bytes = 128 * 1024; // more in flight and a slow reader would see old news
constexpr std::int64_t answer_factor = 3; // a slow reader gets so many times http.timeout_s
// A stream that still has more to send of old events when new ones come is ended; with less it
// only goes without the new ones.
constexpr std::size_t most_queued_bytes = 1024 * 1024;
constexpr std::size_t most_stream_queries = 16; // different ones, of open streams
constexpr int backlog = 128;
constexpr std::size_t longest_token = 4096;
constexpr std::size_t most_searches = 16; // different ones that wait; more are refused
constexpr int search_nice = 5; // whoever asks for one can wait a little
constexpr const char *tls_priorities = "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2";
constexpr std::size_t always_sent_bytes = 1024; // health, refusals

double seconds_now(clockid_t clock)
{
	return static_cast<double>(clock_ns(clock)) / real_ns_per_s;
}

Result<std::string> read_secret(const std::string &what, const std::string &path)
{
	return prefixed(what + ": ", real_system()->read_file(path));
}

// Its time tells nothing of where they differ.
bool same_secret(std::string_view a, std::string_view b)
{
	unsigned differ = a.size() != b.size();

	for (std::size_t i = 0; i < a.size(); i++)
		differ |= static_cast<unsigned char>(a[i]) ^
			  static_cast<unsigned char>(b[b.empty() ? 0 : i % b.size()]);
	return differ == 0;
}

bool same_name(std::string_view a, std::string_view b)
{
	return std::equal(a.begin(), a.end(), b.begin(), b.end(),
			  [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

// @pattern: a name, or "*.example.com".
bool is_named(std::string_view name, std::string_view pattern)
{
	if (!pattern.starts_with('*'))
		return same_name(name, pattern);
	pattern.remove_prefix(1);
	return name.size() > pattern.size() && same_name(name.substr(name.size() - pattern.size()), pattern);
}

// A name in "Host:" that is no address in numbers may be anybody's, who has it point here.
bool is_own_name(std::string_view host, const std::string &own, const std::vector<std::string> &others)
{
	std::string_view name = host;

	if (name.starts_with('['))
		name = name.substr(1, name.find(']') - 1);
	else
		name = name.substr(0, name.find(':'));
	return same_name(name, "localhost") || (!own.empty() && same_name(name, own)) || Address::parse(name) ||
	       std::any_of(others.begin(), others.end(), [&](const auto &other) { return is_named(name, other); });
}

std::string_view header(MHD_Connection *c, const char *name)
{
	const char *value = MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);

	return value ? value : "";
}

struct Listener {
	Fd fd;
	std::string text;
};

// What comes out of files, and may be renewed.
struct Secrets {
	std::string token;
	std::string certificate;
	std::string key;

	bool operator==(const Secrets &) const = default;
};

Result<Secrets> read_secrets(const Config::Http &config)
{
	Secrets s;

	if (!config.token_file.empty()) {
		ASSIGN_OR_RETURN(auto token, read_secret("http.token_file", config.token_file));

		s.token = trim(token);
		if (s.token.size() < 16 || s.token.size() > longest_token)
			return Error{fmt::format("http.token_file: {} holds a token of {} bytes: allowed are 16 to {}",
						 config.token_file, s.token.size(), longest_token)};
	}
	if (!config.tls_certificate.empty()) {
		auto certificate = read_secret("http.tls_certificate", config.tls_certificate);
		auto key = read_secret("http.tls_key", config.tls_key);

		if (!certificate || !key)
			return certificate ? key.error() : certificate.error();
		s.certificate = std::move(*certificate);
		s.key = std::move(*key);
	}
	return s;
}

constexpr std::string_view always_there = "reno";

Result<Listener> open_listener(const ListenAddress &a)
{
	Listener l{Fd(socket(a.v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)), {}};
	const auto name = [&](std::uint16_t port) {
		return a.v6 ? fmt::format("[{}]:{}", a.host, port) : fmt::format("{}:{}", a.host, port);
	};
	const int on = 1;
	sockaddr_in v4{};
	sockaddr_in6 v6{};

	v4.sin_family = AF_INET;
	v4.sin_port = htons(a.port);
	v6.sin6_family = AF_INET6;
	v6.sin6_port = htons(a.port);
	inet_pton(AF_INET, a.host.c_str(), &v4.sin_addr);
	inet_pton(AF_INET6, a.host.c_str(), &v6.sin6_addr);

	auto *address = a.v6 ? reinterpret_cast<sockaddr *>(&v6) : reinterpret_cast<sockaddr *>(&v4);
	socklen_t size = a.v6 ? sizeof(v6) : sizeof(v4);

	if (!l.fd)
		return errno_error("cannot serve on " + name(a.port), errno);
	setsockopt(l.fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	// Where swift is the default, this socket would hold the module that it watches.
	setsockopt(l.fd.get(), IPPROTO_TCP, TCP_CONGESTION, always_there.data(), always_there.size());
	if (a.v6)
		setsockopt(l.fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	if (bind(l.fd.get(), address, size) < 0 || listen(l.fd.get(), backlog) < 0 ||
	    getsockname(l.fd.get(), address, &size) < 0)
		return errno_error("cannot serve on " + name(a.port), errno);
	l.text = name(ntohs(a.v6 ? v6.sin6_port : v4.sin_port));
	return l;
}

class Server;

struct Connection {
	enum class Phase { waiting, answering, streaming };

	Server *server = nullptr;
	int fd = -1;
	Phase phase = Phase::waiting;
	std::int64_t since_ns = 0;
};

struct RequestState {
	std::string target;
	bool begun = false;
	std::shared_ptr<Worker::Turn> search; // that it waits for
	bool refused = false;
};

// An answer on its way: its text stays for as long as its reader takes.
class Sending : NonCopyable {
public:
	Sending(Server &server, SharedText text) : server_(server), text_(std::move(text)) {}
	~Sending();

private:
	Server &server_;
	SharedText text_;
};

struct Stream {
	Server *server = nullptr;
	MHD_Connection *connection = nullptr;
	int fd = -1;
	StreamQuery query;
	std::uint64_t last = 0; // of the store's news
	std::uint64_t last_snapshot = 0;
	std::shared_ptr<Worker::Turn> next; // text that it waits for
	SharedText pending; // shared by all with this query
	std::size_t sent = 0; // of it
	std::int64_t since_ns = 0; // when it began
	bool ended = false; // its reader is too slow

	[[nodiscard]] std::size_t left() const { return pending ? pending->size() - sent : 0; }
};

class Server final : public HttpServer {
public:
	Server(const Config::Http &config, Store &store, const HostFacts &facts, std::size_t most_bytes)
		: config_(config), store_(store), facts_(facts), most_bytes_(most_bytes)
	{
	}
	~Server() override
	{
		{
			// From here on none is suspended: libmicrohttpd aborts if one is while it stops.
			const std::scoped_lock lock(mutex_);

			stopping_ = true;
			resume_all();
		}
		searches_.stop(); // who waits for one is suspended, too
		streamed_.stop();
		for (std::size_t i = 0; i < daemons_.size(); i++) {
			// The listening socket may be another server's, too.
			if (MHD_quiesce_daemon(daemons_[i]) == MHD_INVALID_SOCKET)
				listeners_[i].fd.release(); // then it is libmicrohttpd's to close
			MHD_stop_daemon(daemons_[i]);
		}
	}

	Result<void> start(const std::vector<Listener> *inherited, Secrets secrets);
	Result<std::unique_ptr<HttpServer>> renewed() const override;

	void wake_streams() override
	{
		const std::scoped_lock lock(mutex_);

		for (Stream *s : streams_)
			if (s->left() > most_queued_bytes)
				end_slow(*s);
		resume_all();
	}

	// Idle connections are libmicrohttpd's to end; these are alive, byte by byte.
	void end_overdue(std::int64_t now) override
	{
		const std::scoped_lock lock(mutex_);

		for (const Connection &c : connections_) {
			const std::int64_t most = config_.timeout_s * ns_per_s *
						  (c.phase == Connection::Phase::answering ? answer_factor : 1);

			if (c.phase != Connection::Phase::streaming && now - c.since_ns > most)
				shutdown(c.fd, SHUT_RDWR);
		}
		for (Stream *s : streams_)
			if (s->left() > 0 && now - s->since_ns > config_.timeout_s * ns_per_s * answer_factor)
				end_slow(*s);
	}

	// false: too much is on its way. Else end_sending() is to follow.
	bool begin_sending(const std::string &text)
	{
		const std::scoped_lock lock(mutex_);

		if (sending_bytes_ > most_bytes_ && text.size() > always_sent_bytes && !sending_.contains(&text))
			return false;
		if (sending_[&text]++ == 0)
			sending_bytes_ += text.size();
		return true;
	}
	void end_sending(const std::string &text)
	{
		const std::scoped_lock lock(mutex_);
		const auto at = sending_.find(&text);

		if (--at->second > 0)
			return;
		sending_.erase(at);
		sending_bytes_ -= text.size();
	}

	std::vector<std::string> addresses() const override
	{
		std::vector<std::string> out;

		for (const Listener &l : listeners_)
			out.push_back(l.text);
		return out;
	}

private:
	void resume_all()
	{
		for (Stream *s : sleeping_)
			MHD_resume_connection(s->connection);
		sleeping_.clear();
	}
	void end_slow(Stream &s)
	{
		if (s.ended)
			return;
		s.ended = true;
		store_.http.sse_ended++;
		spdlog::info("an event stream is ended, its reader is too slow: {} bytes of an event that is {} ms "
			     "old are left",
			     s.left(), (clock_ns(CLOCK_MONOTONIC) - s.since_ns) / 1'000'000);
		shutdown(s.fd, SHUT_RDWR);
	}

	// What libmicrohttpd calls.
	static void on_connection(void *self, MHD_Connection *c, void **context,
				  MHD_ConnectionNotificationCode code);
	static void *on_target(void *self, const char *target, MHD_Connection *c);
	static MHD_Result on_request(void *self, MHD_Connection *c, const char *url, const char *method,
				     const char *version, const char *upload, std::size_t *upload_size,
				     void **context);
	static void on_completed(void *self, MHD_Connection *c, void **context,
				 MHD_RequestTerminationCode code);
	static ssize_t on_stream(void *stream, std::uint64_t position, char *to, std::size_t most);
	static void on_stream_end(void *stream);
	static void on_sent(void *sending) { delete static_cast<Sending *>(sending); }

	static Connection *connection_of(MHD_Connection *c)
	{
		const auto *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

		return info ? static_cast<Connection *>(info->socket_context) : nullptr;
	}
	void set_phase(MHD_Connection *c, Connection::Phase phase)
	{
		const std::scoped_lock lock(mutex_);

		if (Connection *k = connection_of(c)) {
			k->phase = phase;
			k->since_ns = clock_ns(CLOCK_MONOTONIC);
		}
	}

	[[nodiscard]] std::optional<Response> refusal(MHD_Connection *c, std::string_view target) const;
	MHD_Result answer(MHD_Connection *c, const char *method, RequestState &state);
	void search(MHD_Connection *c, Search what, RequestState &state);
	[[nodiscard]] static Worker::Waiter waiter(MHD_Connection *c, int fd);
	void take_news(Stream &stream, const News &news);
	MHD_Result send(MHD_Connection *c, const Response &r);
	MHD_Result open_stream(MHD_Connection *c, const StreamQuery &query);
	MHD_Result queue(MHD_Connection *c, unsigned status, MHD_Response *response);

	const Config::Http config_;
	Store &store_;
	const HostFacts &facts_;
	const std::size_t most_bytes_;
	Secrets secrets_;
	TextCache cache_; // by snapshot
	WorkerStats stream_stats_;
	Worker searches_{store_.http.searches, most_searches, search_nice};
	Worker streamed_{stream_stats_, 2 * (most_stream_queries + 1), 0};
	std::vector<MHD_Daemon *> daemons_;
	std::vector<Listener> listeners_; // theirs

	std::mutex mutex_;
	bool stopping_ = false;
	std::list<Connection> connections_;
	std::set<Stream *> sleeping_; // suspended until there are news
	std::set<Stream *> streams_;
	std::map<std::string, std::size_t> stream_queries_; // of them, by key
	std::map<const std::string *, std::size_t> sending_; // to how many
	std::size_t sending_bytes_ = 0;
};

Sending::~Sending()
{
	server_.end_sending(*text_);
}

Result<std::unique_ptr<HttpServer>> Server::renewed() const
{
	ASSIGN_OR_RETURN(auto secrets, read_secrets(config_));

	if (secrets == secrets_)
		return std::unique_ptr<HttpServer>();
	auto server = std::make_unique<Server>(config_, store_, facts_, most_bytes_);

	RETURN_IF_ERROR(server->start(&listeners_, std::move(secrets)));
	return std::unique_ptr<HttpServer>(std::move(server));
}

// @inherited: of a server that is about to leave.
Result<void> Server::start(const std::vector<Listener> *inherited, Secrets secrets)
{
	const bool tls = !config_.tls_certificate.empty();

	secrets_ = std::move(secrets);
	for (std::size_t i = 0; i < config_.listen.size(); i++) {
		ASSIGN_OR_RETURN(auto address, parse_listen("http.listen", config_.listen[i]));
		ASSIGN_OR_RETURN(auto listener, inherited ? Result<Listener>(Listener{
						    Fd(fcntl((*inherited)[i].fd.get(), F_DUPFD_CLOEXEC, 0)),
						    (*inherited)[i].text}) :
					    open_listener(address));

		if (!listener.fd)
			return errno_error("cannot serve on " + listener.text, errno);

		std::vector<MHD_OptionItem> items = {
			{MHD_OPTION_LISTEN_SOCKET, listener.fd.get(), nullptr},
			{MHD_OPTION_CONNECTION_LIMIT, static_cast<std::intptr_t>(config_.max_connections), nullptr},
			{MHD_OPTION_PER_IP_CONNECTION_LIMIT, static_cast<std::intptr_t>(config_.per_ip), nullptr},
			{MHD_OPTION_CONNECTION_TIMEOUT, static_cast<std::intptr_t>(config_.timeout_s), nullptr},
			{MHD_OPTION_CONNECTION_MEMORY_LIMIT, static_cast<std::intptr_t>(connection_bytes), nullptr},
			{MHD_OPTION_NOTIFY_CONNECTION, reinterpret_cast<std::intptr_t>(&on_connection), this},
			{MHD_OPTION_NOTIFY_COMPLETED, reinterpret_cast<std::intptr_t>(&on_completed), this},
			{MHD_OPTION_URI_LOG_CALLBACK, reinterpret_cast<std::intptr_t>(&on_target), this},
		};

		if (tls) {
			items.push_back({MHD_OPTION_HTTPS_MEM_CERT, 0, secrets_.certificate.data()});
			items.push_back({MHD_OPTION_HTTPS_MEM_KEY, 0, secrets_.key.data()});
			items.push_back({MHD_OPTION_HTTPS_PRIORITIES, 0, const_cast<char *>(tls_priorities)});
		}
		items.push_back({MHD_OPTION_END, 0, nullptr});

		MHD_Daemon *daemon = MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME |
							      (tls ? unsigned{MHD_USE_TLS} : 0U),
						      0, nullptr, nullptr, &on_request, this, MHD_OPTION_ARRAY,
						      items.data(), MHD_OPTION_END);

		if (!daemon) {
			// libmicrohttpd has closed it: by now its number may be another file's.
			listener.fd.release();
			return Error{"cannot serve on " + listener.text +
				     (tls ? fmt::format(": are http.tls_certificate, {}, and http.tls_key, {}, a "
							"certificate in PEM and its key?",
							config_.tls_certificate, config_.tls_key) :
					    "")};
		}
		listeners_.push_back(std::move(listener));
		daemons_.push_back(daemon);
	}
	return {};
}

void Server::on_connection(void *self, MHD_Connection *c, void **context,
			   MHD_ConnectionNotificationCode code)
{
	auto *server = static_cast<Server *>(self);
	const std::scoped_lock lock(server->mutex_);

	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		const auto *fd = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);

		server->connections_.push_back({server, fd ? fd->connect_fd : -1, Connection::Phase::waiting, clock_ns(CLOCK_MONOTONIC)});
		*context = &server->connections_.back();
		server->store_.http.connections++;
		return;
	}
	server->connections_.remove_if([&](const Connection &k) { return &k == *context; });
	server->store_.http.connections--;
}

void *Server::on_target(void *, const char *target, MHD_Connection *)
{
	return new RequestState{target, false, nullptr, false};
}

void Server::on_completed(void *self, MHD_Connection *c, void **context, MHD_RequestTerminationCode)
{
	delete static_cast<RequestState *>(*context);
	*context = nullptr;
	static_cast<Server *>(self)->set_phase(c, Connection::Phase::waiting);
}

MHD_Result Server::on_request(void *self, MHD_Connection *c, const char *, const char *method, const char *,
			      const char *, std::size_t *upload_size, void **context)
{
	auto *server = static_cast<Server *>(self);
	auto *state = static_cast<RequestState *>(*context);

	if (!state)
		return MHD_NO;
	if (!state->begun) { // the headers are there, a body may follow
		state->begun = true;
		if (std::string_view(method) == "GET" || std::string_view(method) == "HEAD")
			return MHD_YES;
	} else if (*upload_size > 0) {
		*upload_size = 0; // nobody wants it
		return MHD_YES;
	}
	server->set_phase(c, Connection::Phase::answering);
	try {
		return server->answer(c, method, *state);
	} catch (const std::bad_alloc &) {
		return MHD_NO; // this connection ends
	}
}

std::optional<Response> Server::refusal(MHD_Connection *c, std::string_view target) const
{
	// As what answers reads it: %61pi is api.
	const auto parsed = parse_target(target);
	const std::string path = parsed ? parsed->first : std::string(target.substr(0, target.find('?')));

	// Who has a name of his own point here learns that swiftd runs, and how it does, no more:
	// probes ask for it by whatever name they have.
	if (path == "/healthz")
		return std::nullopt;
	if (!is_own_name(header(c, "Host"), facts_.host, config_.names))
		return error_response(421, "the Host header is none of this host's: allowed are localhost, addresses, "
					   "its name and those of http.names");
	if (secrets_.token.empty())
		return std::nullopt;
	// The pages tell nothing of this host, and ask for the token themselves: a browser cannot
	// send it for the first of them.
	if (!path.starts_with("/api/") && path != "/metrics")
		return std::nullopt;
	constexpr std::string_view scheme = "Bearer ";
	const std::string_view given = header(c, "Authorization");

	if (given.starts_with(scheme) && same_secret(given.substr(scheme.size()), secrets_.token))
		return std::nullopt;
	return error_response(401, "a token is needed: Authorization: Bearer TOKEN");
}

// Whether somebody still waits at the other end: a suspended connection is nobody's to look at.
Worker::Waiter Server::waiter(MHD_Connection *c, int fd)
{
	return {[fd] {
			char byte = 0;

			return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 0;
		},
		[c] { MHD_resume_connection(c); }};
}

// Its connection sleeps until it is done; then libmicrohttpd asks again.
void Server::search(MHD_Connection *c, Search what, RequestState &state)
{
	const auto *fd = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);

	MHD_suspend_connection(c);
	state.search = searches_.ask(what.number, what.key, std::move(what.make), waiter(c, fd ? fd->connect_fd : -1));
	if (state.search)
		return;
	state.refused = true;
	MHD_resume_connection(c);
}

MHD_Result Server::answer(MHD_Connection *c, const char *method, RequestState &state)
{
	const std::string &target = state.target;

	if (state.search && state.search->text())
		return send(c, found_response(state.search->text()));
	if (state.search || state.refused)
		return send(c, error_response(503, "too many searches wait: ask again"));
	if (auto refused = refusal(c, target))
		return send(c, *refused);
	if (std::string_view(method) == "GET" &&
	    std::string_view(target).substr(0, target.find('?')) == stream_path) {
		auto query = parse_stream(target);

		if (!query)
			return send(c, error_response(400, query.error().text()));
		return open_stream(c, *query);
	}

	if (auto what = search_of({method, target}, store_)) {
		if (auto text = searches_.find(what->number, what->key))
			return send(c, found_response(std::move(text)));
		search(c, std::move(*what), state);
		return MHD_YES;
	}

	const std::int64_t now = clock_ns(CLOCK_MONOTONIC);
	const Response r = respond({method, target, header(c, "Accept")},
				   {store_, facts_, web_assets(), now, seconds_now(CLOCK_REALTIME), &cache_});

	if (r.watch)
		store_.watch(*r.watch, now);
	return send(c, r);
}

MHD_Result Server::queue(MHD_Connection *c, unsigned status, MHD_Response *response)
{
	const std::string policy(web_content_security_policy);

	MHD_add_response_header(response, "Content-Security-Policy", policy.c_str());
	MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
	MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
	MHD_add_response_header(response, "Cache-Control", "no-store");
	if (status == 401)
		MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
	if (status == 405)
		MHD_add_response_header(response, "Allow", "GET, HEAD");
	const MHD_Result done = MHD_queue_response(c, status, response);

	MHD_destroy_response(response);
	store_.http.answered(status);
	return done;
}

MHD_Result Server::send(MHD_Connection *c, const Response &r)
{
	const auto zipped = r.by_accept && accepts_gzip(header(c, "Accept-Encoding")) ? gzip(*r.body) : std::nullopt;
	const SharedText body = zipped ? std::make_shared<const std::string>(*zipped) : r.body;

	if (!begin_sending(*body))
		return send(c, error_response(503, "too many answers are on their way to slow readers"));

	auto sending = std::make_unique<Sending>(*this, body);
	MHD_Response *response = MHD_create_response_from_buffer_with_free_callback_cls(
		body->size(), const_cast<char *>(body->data()), &on_sent, sending.get());

	if (!response)
		return MHD_NO;
	(void)sending.release(); // on_sent's
	MHD_add_response_header(response, "Content-Type", r.content_type.c_str());
	if (r.by_accept)
		MHD_add_response_header(response, "Vary", "Accept, Accept-Encoding");
	if (zipped)
		MHD_add_response_header(response, "Content-Encoding", "gzip");
	return queue(c, r.status, response);
}

// --- Event streams -------------------------------------------------------------------------

MHD_Result Server::open_stream(MHD_Connection *c, const StreamQuery &query)
{
	auto stream = std::make_unique<Stream>();
	std::string refused;
	{
		const std::unique_lock lock(mutex_);

		// The other half of all connections is for those who come and go.
		if (streams_.size() * 2 >= static_cast<std::size_t>(config_.max_connections))
			refused = "too many event streams are open";
		else if (stream_queries_.size() >= most_stream_queries && !stream_queries_.contains(query.key()))
			refused = fmt::format("event streams of {} different queries are open, no more are allowed; "
					      "/api/v1/flows answers any",
					      most_stream_queries);
	}
	if (!refused.empty())
		return send(c, error_response(503, refused));

	stream->server = this;
	stream->connection = c;
	stream->query = query;
	if (const auto *fd = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)) {
		stream->fd = fd->connect_fd;
		setsockopt(stream->fd, SOL_SOCKET, SO_SNDBUF, &stream_send_bytes, sizeof(stream_send_bytes));
	}
	MHD_Response *response = MHD_create_response_from_callback(
		MHD_SIZE_UNKNOWN, stream_block_bytes, &on_stream, stream.get(), &on_stream_end);

	if (!response)
		return MHD_NO; // out of memory, as is all else then
	{
		const std::scoped_lock lock(mutex_);

		stream_queries_[query.key()]++;
		streams_.insert(stream.release()); // on_stream_end's
	}
	MHD_add_response_header(response, "Content-Type", "text/event-stream");
	MHD_add_response_header(response, "X-Accel-Buffering", "no"); // nginx would keep events back
	set_phase(c, Connection::Phase::streaming);
	return queue(c, 200, response);
}

// @news are what @stream is to send next; until somebody else has written them out, it sleeps.
void Server::take_news(Stream &stream, const News &news)
{
	const std::uint64_t snapshot = news.snapshot ? news.snapshot->number : 0;
	const bool is_new = snapshot != stream.last_snapshot;
	const std::string key = fmt::format("{}stream {}", is_new, stream.query.key());
	Worker::Make make = [this, news, is_new, query = stream.query](const Cancelled &cancelled) {
		auto text = is_new ? stream_events(*news.snapshot, query, facts_, cancelled) : std::optional(std::string());

		return text ? std::optional(*text + (news.trouble ? trouble_event(*news.trouble) : "")) : std::nullopt;
	};

	if (is_new && stream.last_snapshot != 0)
		store_.http.sse_dropped += snapshot - stream.last_snapshot - 1;
	stream.last = news.number;
	stream.last_snapshot = snapshot;
	stream.pending = streamed_.find(news.number, key);
	stream.since_ns = clock_ns(CLOCK_MONOTONIC);
	stream.sent = 0;
	if (stream.pending)
		return;
	MHD_suspend_connection(stream.connection);
	stream.next = streamed_.ask(news.number, key, std::move(make), waiter(stream.connection, stream.fd));
	if (!stream.next) // it stops, or is behind by more than there are queries: the next news come
		MHD_resume_connection(stream.connection);
}

ssize_t Server::on_stream(void *context, std::uint64_t, char *to, std::size_t most)
{
	auto *stream = static_cast<Stream *>(context);
	Server &server = *stream->server;
	std::unique_lock lock(server.mutex_);

	if (stream->next) {
		if (!stream->next->done())
			return 0;
		stream->pending = stream->next->text();
		stream->next.reset();
		if (!stream->pending)
			return MHD_CONTENT_READER_END_OF_STREAM;
	}
	if (stream->left() == 0) {
		const News news = server.store_.news();

		if (server.stopping_)
			return MHD_CONTENT_READER_END_OF_STREAM;
		// wake_streams() follows all news, under the same lock: none are slept through.
		if (news.number == stream->last || (!news.snapshot && !news.trouble)) {
			MHD_suspend_connection(stream->connection);
			server.sleeping_.insert(stream);
			return 0;
		}
		server.take_news(*stream, news);
		if (!stream->pending)
			return 0;
	}
	if (server.stopping_)
		return MHD_CONTENT_READER_END_OF_STREAM;

	const std::size_t n = std::min(most, stream->left());

	std::memcpy(to, stream->pending->data() + stream->sent, n);
	stream->sent += n;
	if (stream->left() == 0)
		stream->pending.reset();
	return static_cast<ssize_t>(n);
}

void Server::on_stream_end(void *context)
{
	auto *stream = static_cast<Stream *>(context);
	Server &server = *stream->server;
	{
		const std::scoped_lock lock(server.mutex_);

		server.sleeping_.erase(stream);
		server.streams_.erase(stream);
		if (const auto at = server.stream_queries_.find(stream->query.key()); --at->second == 0)
			server.stream_queries_.erase(at);
	}
	delete stream;
}

} // namespace

Result<void> check_http_files(const Config::Http &config)
{
	const auto secrets = read_secrets(config);

	return secrets ? Result<void>() : secrets.error();
}

Result<std::unique_ptr<HttpServer>> start_http(const Config::Http &config, Store &store, const HostFacts &facts,
					       std::size_t most_bytes)
{
	ASSIGN_OR_RETURN(auto secrets, read_secrets(config));
	auto server = std::make_unique<Server>(config, store, facts, most_bytes);

	RETURN_IF_ERROR(server->start(nullptr, std::move(secrets)));
	return std::unique_ptr<HttpServer>(std::move(server));
}

} // namespace swift
