// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cmd is the command line of the playground.
package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"liqo.io/federation/hack/playground/build"
	"liqo.io/federation/hack/playground/instance"
	"liqo.io/federation/hack/playground/state"
)

// common has the values of the flags that all commands have.
type common struct {
	instance string
	stateDir string
}

// exitCode is an error with the exit code of a command that has printed its own message.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// Execute runs a command line and returns the exit code: 0 for success, 1 for a failure, 2 for an invalid command line,
// 130 for an interruption, and for an exitCode its value.
func Execute(ctx context.Context, args []string) int {
	root := newRoot()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	var code exitCode
	var use useError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, &use):
		fmt.Fprintln(os.Stderr, "playground:", err)
		return 2
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "playground: interrupted; run the same command again to continue, "+
			"or delete the instance with: playground down")
		return 130
	}
	fmt.Fprintln(os.Stderr, "playground:", err)
	return 1
}

// useError is the error for an invalid command line.
type useError struct{ error }

func newRoot() *cobra.Command {
	c := &common{}
	root := &cobra.Command{
		Use:   "playground",
		Short: "Run real Kubernetes clusters on one Linux machine",
		Long: `playground runs real Kubernetes clusters on one Linux machine, without Docker,
image registry or virtual machines. It builds Kubernetes from Go modules, and
runs each node in namespaces of its own, with containerd, kubelet and kube-proxy.

An instance is a set of clusters. Nodes of its clusters reach each other; pods of
different clusters do not. Instances are isolated from each other.`,
		Example: `  playground up rome milan
  kubectl --kubeconfig $(playground kubeconfig rome) get nodes
  playground status
  playground down`,
		SuggestionsMinimumDistance: 2,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			if nearest := cmd.SuggestionsFor(args[0]); len(nearest) > 0 {
				return useError{fmt.Errorf("unknown command %q; did you mean %s?", args[0], strings.Join(nearest, " or "))}
			}
			return useError{fmt.Errorf("unknown command %q; see: playground --help", args[0])}
		},
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if err := state.CheckName("instance", c.instance); err != nil {
				return useError{err}
			}
			dir, err := filepath.Abs(c.stateDir)
			c.stateDir = dir
			return err
		},
	}
	root.SetFlagErrorFunc(flagError)
	root.PersistentFlags().StringVar(&c.instance, "instance", "demo", "name of the set of clusters")
	root.PersistentFlags().StringVar(&c.stateDir, "state", ".playground",
		"directory for kubeconfigs, keys, logs and links to programs")
	root.AddCommand(newBuild(c), newUp(c), newDown(c), newStatus(c), newKubeconfig(c), newLoad(c), newImage(),
		newDigest(), newSBOM(), newExec(c), newLogs(c), newRestart(c), newPartition(c), newHeal(c))
	return root
}

// flagError returns the useError for an error of parsing flags. For an unknown flag it names similar ones.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		// cobra suggests names of commands only, so that flags are compared as commands.
		known := &cobra.Command{SuggestionsMinimumDistance: 2}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			known.AddCommand(&cobra.Command{Use: "--" + f.Name, Run: func(*cobra.Command, []string) {}})
		})
		if nearest := known.SuggestionsFor("--" + unknown.GetSpecifiedName()); len(nearest) > 0 {
			return useError{fmt.Errorf("%w; did you mean %s?", err, strings.Join(nearest, " or "))}
		}
	}
	return useError{fmt.Errorf("%w; see: %s --help", err, cmd.CommandPath())}
}

// use returns a check that accepts the same positional arguments as the given one, and otherwise fails with a useError.
func use(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return useError{fmt.Errorf("%w; see: %s --help", err, cmd.CommandPath())}
		}
		return nil
	}
}

// want returns settings with which Partition, and Restart, which calls Up, change no setting of an existing instance:
// only the instance, its state directory, and DefaultPool, from which new clusters get the addresses of their nodes.
func (c *common) want() instance.Want {
	return instance.Want{Instance: c.instance, Dir: c.stateDir, Pool: instance.DefaultPool}
}

// buildClusters builds the programs that the clusters of the instance run. It includes the programs for fake nodes and
// for NetworkPolicies if w or a cluster in the record requires them.
func (c *common) buildClusters(ctx context.Context, w instance.Want) (*build.Set, error) {
	fakeNodes := w.FakeNodes != nil && *w.FakeNodes > 0 || instance.HasFakeNodes(c.instance)
	return c.build(ctx, build.OfClusters(fakeNodes, w.Enforces() || instance.HasNetworkPolicies(c.instance))...)
}

// build builds the named programs, or all programs if there are no names.
func (c *common) build(ctx context.Context, only ...string) (*build.Set, error) {
	source, err := build.FindSource()
	if err != nil {
		return nil, err
	}
	return build.Build(ctx, build.Options{
		Source: source, Bin: filepath.Join(c.stateDir, "bin"), Only: only, Progress: os.Stderr,
	})
}

// checkMachine returns an error with all reasons why clusters cannot run on this machine.
func checkMachine() error {
	if os.Geteuid() != 0 {
		return errors.New("network namespaces, mounts and control groups require root; run it with sudo or as root")
	}
	return requires(map[string]string{
		"runc": "runc", "iptables": "iptables", "nft": "nftables", "conntrack": "conntrack", "nsenter": "util-linux",
		"mount": "mount", "dpkg": "dpkg",
	})
}

// requires returns an error that names the programs that are not in PATH, with their Debian packages. The keys of
// packages are programs.
func requires(packages map[string]string) error {
	var problems []error
	for program, pkg := range packages {
		if _, err := exec.LookPath(program); err != nil {
			problems = append(problems, fmt.Errorf("%s is not in PATH; install the package %s", program, pkg))
		}
	}
	return errors.Join(problems...)
}

func printTo(w io.Writer, format string, args ...any) error {
	_, err := fmt.Fprintf(w, format, args...)
	return err
}
