// SPDX-License-Identifier: GPL-2.0
/*
 * Loads the BPF programs for the tests, and keeps them until its standard input ends:
 *
 *	loader [-c CGROUP] [-f FLOWS] OBJECT [NAME=VALUE...]
 *
 * prints "verified PROGRAM INSTRUCTIONS" for each program, then "ready"; then obeys lines:
 *
 *	set NAME=VALUE...             the parameters of all flows
 *	profile ADDR/LEN NAME=VALUE.. those of a destination prefix
 *	clock COOKIE IFINDEX OFFSET_NS PPM ERROR_NS VALID_MS
 *	                              the line of a clock of tests/vm/nic, in the namespace
 *	                              of that cookie
 *	napi ID COOKIE IFINDEX        that NAPI is the device's, in the namespace of that cookie
 *	stamps                        how many there were, of which kind
 *	flows                         show the socket storage, by the program of FLOWS
 *	costs                         "cost PROGRAM TYPE CALLS NS", while kernel.bpf_stats_enabled
 *	quit
 *
 * each answered with "done" or "error: ...". At the end, or with -n at once, all is gone.
 * max_rtt_ns is a name, too. What users load with is swiftctl.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "core/gcn.h"
#include "core/timely.h"
#include "maps.h"

/* BPF_F_LINK and BPF_STRUCT_OPS of Linux 6.4, which Debian 12's linux/bpf.h does not know. */
#define MAP_BY_LINK (1U << 13)
#define ATTACH_STRUCT_OPS 44

struct tunables {
	struct swift_tunables swift;
	struct timely_tunables timely;
	struct gcn_tunables gcn;
	unsigned int max_rtt_ns;
	int dscp;
};

static int failed(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	printf("error: ");
	vprintf(format, args);
	printf("\n");
	fflush(stdout);
	va_end(args);
	return -1;
}

static void tunables_default(struct tunables *t)
{
	swift_tunables_default(&t->swift);
	timely_tunables_default(&t->timely);
	gcn_tunables_default(&t->gcn);
	t->max_rtt_ns = 5000000;
	t->dscp = -1;
}

/* Which law a name belongs to is clear from the maps that the object has. */
static int tunable_set(struct tunables *t, struct bpf_object *object, const char *setting)
{
	const char *equals = strchr(setting, '=');
	unsigned int value, n, found = 0;

	if (!equals)
		return failed("%s: wanted NAME=VALUE", setting);
	n = equals - setting;
	value = strtoul(equals + 1, NULL, 0);
#define SET(where, name)                                            \
	if (strlen(#name) == n && !strncmp(setting, #name, n)) {   \
		t->where = value;                                   \
		found = 1;                                          \
	}
	SET(dscp, dscp)
	if (bpf_object__find_map_by_name(object, "swift_params")) {
#define SWIFT_X(name, def, lo, hi, doc) SET(swift.name, name)
		SWIFT_TUNABLES(SWIFT_X)
		SET(max_rtt_ns, max_rtt_ns)
	}
	if (bpf_object__find_map_by_name(object, "timely_params")) {
#define TIMELY_X(name, def, lo, hi, doc) SET(timely.name, name)
		TIMELY_TUNABLES(TIMELY_X)
	}
	if (bpf_object__find_map_by_name(object, "gcn_params")) {
#define GCN_X(name, def, lo, hi, doc) SET(gcn.name, name)
		GCN_TUNABLES(GCN_X)
	}
	return found ? 0 : failed("%s: no such tunable", setting);
}

static int map_fd(struct bpf_object *object, const char *name)
{
	return bpf_object__find_map_fd_by_name(object, name);
}

static int prepare_swift(struct bpf_swift_profile *profile, const struct tunables *t)
{
	const char *wrong;

	memset(profile, 0, sizeof(*profile));
	wrong = swift_params_prepare(&profile->law, &t->swift);
	profile->max_rtt_ns = t->max_rtt_ns;
	profile->dscp = t->dscp;
	return wrong ? failed("%s is out of range", wrong) : 0;
}

static int write_params(struct bpf_object *object, const struct tunables *t)
{
	struct bpf_timely_profile timely = { .dscp = t->dscp };
	struct bpf_gcn_profile gcn = { .dscp = t->dscp };
	struct bpf_swift_profile swift;
	const char *wrong = NULL;
	unsigned int first = 0;
	int fd, ret = 0;

	fd = map_fd(object, "swift_params");
	if (fd >= 0)
		ret = prepare_swift(&swift, t) ?: bpf_map_update_elem(fd, &first, &swift, 0);
	fd = map_fd(object, "timely_params");
	if (fd >= 0 && !(wrong = timely_params_prepare(&timely.law, &t->timely)))
		ret = bpf_map_update_elem(fd, &first, &timely, 0);
	fd = map_fd(object, "gcn_params");
	if (fd >= 0 && !(wrong = gcn_params_prepare(&gcn.law, &t->gcn)))
		ret = bpf_map_update_elem(fd, &first, &gcn, 0);
	return wrong ? failed("%s is out of range", wrong) : ret;
}

static int write_profile(struct bpf_object *object, const struct tunables *t, char *prefix)
{
	struct bpf_swift_prefix key = {};
	struct bpf_swift_profile profile;
	char *slash = strchr(prefix, '/');

	if (!slash)
		return failed("%s: wanted ADDRESS/LENGTH", prefix);
	*slash = 0;
	key.prefix_len = strtoul(slash + 1, NULL, 10);
	if (inet_pton(AF_INET, prefix, key.addr + 12) == 1) {
		key.addr[10] = key.addr[11] = 0xff;
		key.prefix_len += 96;
	} else if (inet_pton(AF_INET6, prefix, key.addr) != 1) {
		return failed("%s is no address", prefix);
	}
	if (prepare_swift(&profile, t))
		return -1;
	if (bpf_map_update_elem(map_fd(object, "swift_profiles"), &key, &profile, 0))
		return failed("profile: %s", strerror(errno));
	return 0;
}

static int write_clock(struct bpf_object *object, const char *words)
{
	struct swift_clock_setting setting = {};
	struct bpf_swift_clock_key key = {};
	struct bpf_swift_clock clock = {};
	unsigned long long cookie;
	struct timespec t;
	long long offset_ns, now_ns;
	int ppm;

	if (sscanf(words, "%llu %u %lld %d %u %u", &cookie, &key.ifindex, &offset_ns, &ppm,
		   &setting.error_ns, &setting.valid_ms) != 6)
		return failed("clock: %s: wanted six numbers", words);
	clock_gettime(CLOCK_MONOTONIC, &t);
	now_ns = t.tv_sec * 1000000000LL + t.tv_nsec;
	key.netns = cookie;
	setting.host_ns = now_ns;
	setting.nic_ns = offset_ns + now_ns + now_ns / 1000 * ppm / 1000;
	setting.ratio_q32 = SWIFT_CLOCK_ONE_Q32 / (1 + ppm / 1e6);
	if (swift_clock_prepare(&clock.line, &setting, now_ns) != SWIFT_CLOCK_F_NONE)
		return failed("clock: %s: out of range", words);
	clock.check = bpf_swift_clock_check(&key, &clock.line);
	if (bpf_map_update_elem(map_fd(object, "swift_clocks"), &key, &clock, 0))
		return failed("clock: %s", strerror(errno));
	return 0;
}

static int write_napi(struct bpf_object *object, const char *words)
{
	struct bpf_swift_clock_key key = {};
	unsigned long long cookie;
	unsigned int id;

	if (sscanf(words, "%u %llu %u", &id, &cookie, &key.ifindex) != 3)
		return failed("napi: %s: wanted three numbers", words);
	key.netns = cookie;
	if (bpf_map_update_elem(map_fd(object, "swift_clock_napis"), &id, &key, 0))
		return failed("napi: %s", strerror(errno));
	return 0;
}

static int show_stamps(struct bpf_object *object)
{
	int cpus = libbpf_num_possible_cpus(), cpu;
	struct bpf_swift_stamps sum = {}, *of_cpu;
	unsigned int first = 0;

	of_cpu = calloc(cpus, sizeof(*of_cpu));
	if (!of_cpu || bpf_map_lookup_elem(map_fd(object, "swift_stamps"), &first, of_cpu)) {
		free(of_cpu);
		return failed("stamps: %s", strerror(errno));
	}
	for (cpu = 0; cpu < cpus; cpu++) {
#define STAMPS_ADD(name) sum.name += of_cpu[cpu].name;
		BPF_SWIFT_STAMPS(STAMPS_ADD)
	}
#define STAMPS_PRINT(name) printf("%s %llu\n", #name, (unsigned long long)sum.name);
	BPF_SWIFT_STAMPS(STAMPS_PRINT)
	free(of_cpu);
	return 0;
}

/* How many arguments the kernel gives to cong_control(). */
static int cong_control_args(void)
{
	struct btf *btf = btf__load_vmlinux_btf();
	const struct btf_member *member;
	const struct btf_type *type;
	int id, i, args = 0;

	if (!btf)
		return 0;
	id = btf__find_by_name_kind(btf, "tcp_congestion_ops", BTF_KIND_STRUCT);
	type = id < 0 ? NULL : btf__type_by_id(btf, id);
	for (i = 0; type && i < btf_vlen(type); i++) {
		member = btf_members(type) + i;
		if (strcmp(btf__name_by_offset(btf, member->name_off), "cong_control"))
			continue;
		type = btf__type_by_id(btf, member->type);
		type = btf__type_by_id(btf, type->type);
		args = btf_vlen(type);
		break;
	}
	btf__free(btf);
	return args;
}

/* Where in .rodata a variable is; -1 = nowhere. */
static int rodata_offset(struct bpf_object *object, const char *name)
{
	const struct btf *btf = bpf_object__btf(object);
	int id = btf__find_by_name_kind(btf, ".rodata", BTF_KIND_DATASEC), i;
	const struct btf_type *section, *var;

	if (id < 0)
		return -1;
	section = btf__type_by_id(btf, id);
	for (i = 0; i < btf_vlen(section); i++) {
		var = btf__type_by_id(btf, btf_var_secinfos(section)[i].type);
		if (!strcmp(btf__name_by_offset(btf, var->name_off), name))
			return btf_var_secinfos(section)[i].offset;
	}
	return -1;
}

/*
 * A registration by link (Linux 6.4) ends with its loader, however that ends. One without
 * outlives a loader that was killed, until the machine stops.
 */
static int kernel_links(void)
{
	struct btf *btf = btf__load_vmlinux_btf();
	int id = btf ? btf__find_by_name_kind(btf, "bpf_struct_ops_link", BTF_KIND_STRUCT) : -1;

	btf__free(btf);
	return id >= 0;
}

static int tell_kernel(struct bpf_object *object)
{
	int at = rodata_offset(object, "cong_control_args"), ret = 0;
	struct bpf_map *map;
	size_t size;
	char *data;

	bpf_object__for_each_map(map, object) {
		if (bpf_map__type(map) == BPF_MAP_TYPE_STRUCT_OPS && kernel_links())
			bpf_map__set_map_flags(map, bpf_map__map_flags(map) | MAP_BY_LINK);
		if (at < 0 || !strstr(bpf_map__name(map), ".rodata"))
			continue;
		size = bpf_map__value_size(map);
		data = malloc(size);
		memcpy(data, bpf_map__initial_value(map, &size), size);
		data[at] = cong_control_args();
		ret = bpf_map__set_initial_value(map, data, size);
		free(data);
	}
	return ret;
}

#define LINKS_MAX 8

struct links {
	struct bpf_link *of[LINKS_MAX];
	int count;
};

/* libbpf before 1.2 fills in the map, and leaves the link to us. Its fd is open until the end. */
static int struct_ops_linked(const struct bpf_map *map)
{
	int fd;

	if (libbpf_major_version() > 1 || libbpf_minor_version() > 1)
		return 0;
	if (!(bpf_map__map_flags(map) & MAP_BY_LINK))
		return 0;
	fd = bpf_link_create(bpf_map__fd(map), 0, ATTACH_STRUCT_OPS, NULL);
	return fd < 0 ? fd : 0;
}

static void detach(struct links *links)
{
	while (links->count)
		bpf_link__destroy(links->of[--links->count]);
}

static int attach(struct bpf_object *object, int cgroup, struct links *links)
{
	struct bpf_program *program;
	struct bpf_link *link;
	struct bpf_map *map;

	bpf_object__for_each_program(program, object) {
		switch (bpf_program__type(program)) {
		case BPF_PROG_TYPE_TRACING:
			link = bpf_program__attach(program);
			break;
		case BPF_PROG_TYPE_SOCK_OPS:
		case BPF_PROG_TYPE_CGROUP_SKB:
			if (cgroup < 0)
				continue;
			link = bpf_program__attach_cgroup(program, cgroup);
			break;
		default:
			continue;
		}
		if (!link)
			return failed("attach %s: %s", bpf_program__name(program), strerror(errno));
		links->of[links->count++] = link;
	}
	bpf_object__for_each_map(map, object) {
		if (bpf_map__type(map) != BPF_MAP_TYPE_STRUCT_OPS)
			continue;
		link = bpf_map__attach_struct_ops(map);
		if (!link || struct_ops_linked(map))
			return failed("register %s: %s", bpf_map__name(map), strerror(errno));
		links->of[links->count++] = link;
	}
	return 0;
}

/* Ends the wait for a line, and so the program. */
static void on_signal(int number)
{
	(void)number;
}

static void tell_counts(struct bpf_object *object)
{
	struct bpf_program *program;

	bpf_object__for_each_program(program, object) {
		struct bpf_prog_info info = {};
		unsigned int len = sizeof(info);

		if (!bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &len))
			printf("verified %s %u\n", bpf_program__name(program), info.verified_insns);
	}
}

static void tell_costs(struct bpf_object *object)
{
	struct bpf_program *program;

	bpf_object__for_each_program(program, object) {
		struct bpf_prog_info info = {};
		unsigned int len = sizeof(info);

		if (!bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &len))
			printf("cost %s %s %llu %llu\n", bpf_program__name(program),
			       libbpf_bpf_prog_type_str(bpf_program__type(program)), info.run_cnt,
			       info.run_time_ns);
	}
}

/* One line for each flow. */
static int show_flows(struct bpf_object *object, const char *path)
{
	union bpf_iter_link_info info = { .map = { .map_fd = map_fd(object, "swift_flows") } };
	LIBBPF_OPTS(bpf_iter_attach_opts, opts, .link_info = &info, .link_info_len = sizeof(info));
	struct bpf_object *flows = path ? bpf_object__open_file(path, NULL) : NULL;
	struct bpf_link *link = NULL;
	char text[4096];
	int fd = -1, n;

	if (flows && !bpf_object__load(flows))
		link = bpf_program__attach_iter(bpf_object__next_program(flows, NULL), &opts);
	if (link)
		fd = bpf_iter_create(bpf_link__fd(link));
	while (fd >= 0 && (n = read(fd, text, sizeof(text))) > 0)
		fwrite(text, 1, n, stdout);
	n = fd;
	if (fd >= 0)
		close(fd);
	bpf_link__destroy(link);
	bpf_object__close(flows);
	return n >= 0 ? 0 : failed("flows: %s", strerror(errno));
}

static void obey(struct bpf_object *object, struct tunables *all, const char *flows)
{
	char line[4096], *word, *rest, *prefix;
	struct tunables t;

	while (fgets(line, sizeof(line), stdin)) {
		word = strtok_r(line, " \n", &rest);
		prefix = NULL;
		t = *all;
		if (!word)
			continue;
		if (!strcmp(word, "quit"))
			break;
		if (!strcmp(word, "flows")) {
			if (!show_flows(object, flows))
				printf("done\n");
			fflush(stdout);
			continue;
		}
		if (!strcmp(word, "napi")) {
			if (!write_napi(object, rest))
				printf("done\n");
			fflush(stdout);
			continue;
		}
		if (!strcmp(word, "clock") || !strcmp(word, "stamps")) {
			if (!(*word == 'c' ? write_clock(object, rest) : show_stamps(object)))
				printf("done\n");
			fflush(stdout);
			continue;
		}
		if (!strcmp(word, "costs")) {
			tell_costs(object);
			printf("done\n");
			fflush(stdout);
			continue;
		}
		if (!strcmp(word, "profile"))
			prefix = strtok_r(NULL, " \n", &rest);
		while ((word = strtok_r(NULL, " \n", &rest)))
			if (tunable_set(&t, object, word))
				break;
		if (word)
			continue;
		if (prefix ? write_profile(object, &t, prefix) : write_params(object, &t))
			continue;
		if (!prefix)
			*all = t;
		printf("done\n");
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	struct bpf_object *object;
	struct links links = {};
	struct sigaction action = { .sa_handler = on_signal };
	const char *flows = NULL;
	struct tunables t;
	int option, cgroup = -1, once = 0, i;

	while ((option = getopt(argc, argv, "c:f:n")) != -1) {
		if (option == 'n') {
			once = 1;
		} else if (option == 'f') {
			flows = optarg;
		} else if (option != 'c') {
			return 2;
		} else {
			cgroup = open(optarg, O_RDONLY | O_DIRECTORY);
			if (cgroup < 0)
				return failed("%s: %s", optarg, strerror(errno)), 1;
		}
	}
	if (optind >= argc)
		return 2;
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	object = bpf_object__open_file(argv[optind], NULL);
	if (!object)
		return failed("%s: %s", argv[optind], strerror(errno)), 1;
	tunables_default(&t);
	for (i = optind + 1; i < argc; i++)
		if (tunable_set(&t, object, argv[i]))
			return 1;
	if (tell_kernel(object) || bpf_object__load(object))
		return failed("%s does not load", argv[optind]), 1;
	if (write_params(object, &t) || attach(object, cgroup, &links)) {
		detach(&links);
		return 1;
	}
	tell_counts(object);
	printf("ready\n");
	fflush(stdout);
	if (!once)
		obey(object, &t, flows);
	detach(&links);
	bpf_object__close(object);
	return 0;
}
