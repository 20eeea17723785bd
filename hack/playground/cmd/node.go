// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"liqo.io/federation/hack/playground/cluster"
	"liqo.io/federation/hack/playground/instance"
	"liqo.io/federation/hack/playground/sandbox"
)

// routerName is the name by which commands select the router. It is the name of no node, as names of nodes begin
// with the name of their cluster and a dash.
const routerName = "router"

func newExec(c *common) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "exec NODE -- COMMAND [ARG...]",
		Short: "Run a command in the namespaces of a node",
		Long: `exec runs a program of this machine with the network, processes, /run, /var/lib
and /var/log of a node, and exits with the program's exit code. NODE is the name of
a node, or router for the network namespace that connects the clusters.`,
		Example: `  playground exec rome-worker-1 -- ip route
  playground exec router -- ip -s link
  playground exec rome-worker-1 -- $PWD/.playground/bin/ctr -n k8s.io images list`,
		Args: use(func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 || len(args) == 2 && args[1] == "--" {
				return errors.New("a node and a command are required")
			}
			return nil
		}),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkMachine(); err != nil {
				return err
			}
			i, err := instance.Load(c.instance)
			if err != nil {
				return err
			}
			holder := i.Router
			if args[0] != routerName {
				_, n, err := i.Node(args[0])
				if err != nil {
					return err
				}
				holder = n.Holder
			}
			if !sandbox.Alive(holder) {
				return fmt.Errorf("node %s is not running; start it with: playground up", args[0])
			}
			command := args[1:]
			if command[0] == "--" {
				command = command[1:]
			}
			nsenter := append([]string{
				"--target", strconv.Itoa(holder.PID), "--net", "--mount", "--pid", "--uts", "--ipc", "--",
			}, command...)
			return attached(exec.CommandContext(cmd.Context(), "nsenter", nsenter...))
		},
	}
	// Flags after the name of the node are passed to the command.
	cmd.Flags().SetInterspersed(false)
	return cmd
}

func newLogs(c *common) *cobra.Command {
	follow, lines := false, 0
	cmd := &cobra.Command{
		Use:   "logs NODE [DAEMON]",
		Short: "Print the logs of a node's daemons",
		Example: `  playground logs rome-control-plane kube-apiserver -f
  playground logs rome-worker-1`,
		Args: use(cobra.RangeArgs(1, 2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			i, err := instance.Load(c.instance)
			if err != nil {
				return err
			}
			name := args[0]
			if name != routerName {
				if _, _, err := i.Node(name); err != nil {
					return err
				}
			}
			files, err := filepath.Glob(cluster.LogPath(i, name, "*"))
			if err != nil {
				return err
			}
			if len(args) == 2 {
				file := cluster.LogPath(i, name, args[1])
				if _, err := os.Stat(file); err != nil {
					return fmt.Errorf("node %s has no daemon %q; its daemons are %s", name, args[1], daemonNames(files))
				}
				files = []string{file}
			}
			tail := []string{"--lines=" + strconv.Itoa(lines)}
			if follow {
				tail = append(tail, "--follow=name")
			}
			return attached(exec.CommandContext(cmd.Context(), "tail", append(tail, files...)...))
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "print new lines as they are written, until interrupted")
	cmd.Flags().IntVarP(&lines, "lines", "n", 50, "number of lines at the end of each log to print")
	return cmd
}

func daemonNames(files []string) string {
	var names []string
	for _, f := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(f), ".log"))
	}
	return strings.Join(names, ", ")
}

// attached runs a command with the input and output of this process. It fails with an exitCode if the command
// does.
func attached(cmd *exec.Cmd) error {
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		return exitCode(exit.ExitCode())
	}
	return err
}
