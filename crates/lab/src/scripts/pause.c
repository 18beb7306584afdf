/* Holds a pod's namespaces and reaps what becomes its child. `pause -v` prints and ends: kubeadm's upgrade asks so. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void end(int signal) {
  (void)signal;
  _exit(0);
}

static void reap(int signal) {
  (void)signal;
  while (waitpid(-1, NULL, WNOHANG) > 0) {
  }
}

int main(int count, char **words) {
  if (count > 1 && strcmp(words[1], "-v") == 0) {
    puts("pause of a disposable lab");
    return 0;
  }
  signal(SIGINT, end);
  signal(SIGTERM, end);
  signal(SIGCHLD, reap);
  for (;;) pause();
}
