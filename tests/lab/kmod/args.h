/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The control lines of the lab's modules: "VERB key=value ...", each key against
 * a table that says what is allowed. A wrong line changes nothing.
 */
#ifndef LAB_ARGS_H
#define LAB_ARGS_H

#include <linux/kernel.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#define LAB_LINE_MAX 8192

struct lab_arg {
	const char *name;
	u64 min, max;
	u64 *number; /* either: holds the default, then the value */
	char **text; /* or: points into the line */
	bool required;
	bool given;
};

#define LAB_NUMBER(key, lo, hi, to) { .name = (key), .min = (lo), .max = (hi), .number = (to) }
#define LAB_NEEDED(key, lo, hi, to) \
	{ .name = (key), .min = (lo), .max = (hi), .number = (to), .required = true }
#define LAB_TEXT(key, to) { .name = (key), .text = (to) }

/*
 * Fill @args from @line, which is cut to pieces. -EINVAL names what is wrong in the
 * kernel log; the numbers are then half old, half new, so let them be locals.
 */
static inline int lab_parse(char *line, struct lab_arg *args, int n)
{
	char *key, *value;
	int i, err;

	while (*(line = skip_spaces(line))) {
		line = next_arg(line, &key, &value);
		for (i = 0; i < n && strcmp(key, args[i].name); i++)
			;
		if (i == n || !value) {
			pr_err("%s: %s\n", key, i == n ? "unknown key" : "needs a value");
			return -EINVAL;
		}
		args[i].given = true;
		if (args[i].text) {
			*args[i].text = value;
			continue;
		}
		err = kstrtou64(value, 10, args[i].number);
		if (err || *args[i].number < args[i].min || *args[i].number > args[i].max) {
			pr_err("%s=%s: expected %llu to %llu\n", key, value, args[i].min,
			       args[i].max);
			return -EINVAL;
		}
	}
	for (i = 0; i < n; i++) {
		if (args[i].required && !args[i].given) {
			pr_err("%s: missing\n", args[i].name);
			return -EINVAL;
		}
	}
	return 0;
}

/*
 * One write(2) is one line: copy it, split off its verb, and hand the rest to the
 * verb's function. Returns @count, or the error.
 */
struct lab_verb {
	const char *name;
	int (*run)(char *args);
};

static inline ssize_t lab_control(const char __user *buf, size_t count,
				  const struct lab_verb *verbs, int n)
{
	char *line, *rest, *verb;
	int i, err = -EINVAL;

	if (count >= LAB_LINE_MAX)
		return -E2BIG;
	line = memdup_user_nul(buf, count);
	if (IS_ERR(line))
		return PTR_ERR(line);
	rest = strim(line);
	verb = strsep(&rest, " ");
	for (i = 0; i < n && strcmp(verb, verbs[i].name); i++)
		;
	if (i < n)
		err = verbs[i].run(rest ?: "");
	else
		pr_err("%s: unknown verb\n", verb);
	kfree(line);
	return err ?: count;
}

#endif /* LAB_ARGS_H */
