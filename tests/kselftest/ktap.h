/* SPDX-License-Identifier: GPL-2.0 */
/*
 * KTAP output for tests that run as root against a module.
 *
 * Every test is a function in a process of its own: what it leaves open, mapped,
 * forked or registered ends with it, and one that dies fails alone.  A check that
 * fails says where and with what, and ends the process; it may stand in a child
 * of the test too, whose exit status the test then looks at.
 */
#ifndef _KTAP_H
#define _KTAP_H

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KTAP_PASS 0
#define KTAP_FAIL 1
#define KTAP_SKIP 4

/* A test that takes this long hangs; nothing is measured with it. */
#define KTAP_TIMEOUT_S 600

struct ktap_test {
	const char *name;
	void (*run)(void);
};

#define require(condition)						\
	do {								\
		if (!(condition)) {					\
			printf("# %s:%d: %s: %s is false\n", __FILE__,	\
			       __LINE__, __func__, #condition);		\
			fflush(stdout);					\
			_exit(KTAP_FAIL);				\
		}							\
	} while (0)

/* Both as signed numbers, so that a negative errno is seen as one. */
#define require_eq(actual, expected)					\
	do {								\
		const long long actual_ = (long long)(actual);		\
		const long long expected_ = (long long)(expected);	\
									\
		if (actual_ != expected_) {				\
			printf("# %s:%d: %s: %s is %lld, not %lld\n",	\
			       __FILE__, __LINE__, __func__, #actual,	\
			       actual_, expected_);			\
			fflush(stdout);					\
			_exit(KTAP_FAIL);				\
		}							\
	} while (0)

/* Does the condition come true within a minute?  For what others do for us. */
#define eventually(condition)						\
	({								\
		int rounds_ = 6000;					\
		int true_ = 0;						\
									\
		while (!(true_ = !!(condition)) && --rounds_)		\
			ktap_pause_ms(10);				\
		true_;							\
	})

void ktap_pause_ms(unsigned int ms);

/* End the running test: it can not be run here. */
void __attribute__((noreturn)) ktap_skip(const char *reason);

/* Instead of ktap_run() if no test can be run here.  Return: for main(). */
int ktap_skip_all(const char *reason);

/* Run all and print plan and results.  Return: for main(). */
int ktap_run(const struct ktap_test *tests, size_t nr);

#endif /* _KTAP_H */
