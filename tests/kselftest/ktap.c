// SPDX-License-Identifier: GPL-2.0
#include "ktap.h"

#define REASON_MAX 256

/* Why a test was skipped: written by the test, read by the runner. */
static char *skip_reason;

void ktap_pause_ms(unsigned int ms)
{
	struct timespec left = {
		.tv_sec = ms / 1000,
		.tv_nsec = ms % 1000 * 1000000L,
	};

	while (nanosleep(&left, &left) && errno == EINTR)
		;
}

void ktap_skip(const char *reason)
{
	snprintf(skip_reason, REASON_MAX, "%s", reason);
	fflush(stdout);
	_exit(KTAP_SKIP);
}

int ktap_skip_all(const char *reason)
{
	printf("KTAP version 1\n1..0 # SKIP %s\n", reason);
	return KTAP_SKIP;
}

/* Return: wait status of the test. */
static int run_one(const struct ktap_test *test)
{
	int status;
	pid_t pid;

	fflush(stdout);
	skip_reason[0] = '\0';
	pid = fork();
	if (pid < 0)
		return KTAP_FAIL << 8;
	if (!pid) {
		setpgid(0, 0);
		alarm(KTAP_TIMEOUT_S);
		test->run();
		fflush(stdout);
		_exit(KTAP_PASS);
	}

	/* Also here: the child may not have come that far when it is killed. */
	setpgid(pid, pid);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return KTAP_FAIL << 8;
	/* Children it forgot must not disturb the next test. */
	kill(-pid, SIGKILL);
	return status;
}

int ktap_run(const struct ktap_test *tests, size_t nr)
{
	size_t failed = 0, skipped = 0;

	skip_reason = mmap(NULL, REASON_MAX, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (skip_reason == MAP_FAILED) {
		printf("Bail out! no memory\n");
		return KTAP_FAIL;
	}

	printf("KTAP version 1\n1..%zu\n", nr);
	for (size_t i = 0; i < nr; i++) {
		int status = run_one(&tests[i]);

		if (WIFEXITED(status) && WEXITSTATUS(status) == KTAP_PASS) {
			printf("ok %zu %s\n", i + 1, tests[i].name);
		} else if (WIFEXITED(status) &&
			   WEXITSTATUS(status) == KTAP_SKIP) {
			printf("ok %zu %s # SKIP %s\n", i + 1, tests[i].name,
			       skip_reason);
			skipped++;
		} else {
			if (WIFSIGNALED(status))
				printf("# ended by signal %d\n",
				       WTERMSIG(status));
			printf("not ok %zu %s\n", i + 1, tests[i].name);
			failed++;
		}
		fflush(stdout);
	}

	if (failed)
		return KTAP_FAIL;
	return nr && skipped == nr ? KTAP_SKIP : KTAP_PASS;
}
