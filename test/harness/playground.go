// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package harness controls the clusters of the end-to-end tests and of the benchmarks, with the
// playground, kubectl and Helm. Of the product, it imports only API types and generated clients.
package harness

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Playground is one instance of the playground program.
type Playground struct {
	// Root is the directory of the repository.
	Root string
	// Instance is the name of the instance. The demo uses "demo".
	Instance string
	// Log receives the output of the playground and of other programs. nil discards it.
	Log io.Writer
}

// Root returns the root directory of the repository that contains the working directory.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Stat(filepath.Join(d, "go.mod")); err == nil {
			return d, nil
		}
		if d == filepath.Dir(d) {
			return "", fmt.Errorf("no go.mod above %s; run this within the repository", dir)
		}
	}
}

// Bin returns the path of a program that the playground provides.
func (p *Playground) Bin(name string) string {
	return filepath.Join(p.Root, ".playground", "bin", name)
}

// Dir returns the directory with the files of this instance.
func (p *Playground) Dir() string {
	return filepath.Join(p.Root, ".playground", p.Instance)
}

// Kubeconfig returns the path of the kubeconfig of a cluster's administrator.
func (p *Playground) Kubeconfig(cluster string) string {
	if p.Instance == "demo" {
		return filepath.Join(p.Root, ".playground", cluster+".kubeconfig")
	}
	return filepath.Join(p.Dir(), cluster+".kubeconfig")
}

// Up starts the clusters with these names. options are flags of "playground up".
func (p *Playground) Up(ctx context.Context, clusters []string, options ...string) error {
	return p.run(ctx, append(append([]string{"up"}, clusters...), options...)...)
}

// Down deletes the instance with all clusters.
func (p *Playground) Down(ctx context.Context) error { return p.run(ctx, "down") }

// Load loads image archives on all nodes.
func (p *Playground) Load(ctx context.Context, tars ...string) error {
	return p.run(ctx, append([]string{"load"}, tars...)...)
}

// Build builds programs that "playground up" does not build, because clusters do not run them.
func (p *Playground) Build(ctx context.Context, programs ...string) error {
	return p.run(ctx, "build", "--only", strings.Join(programs, ","))
}

// Image writes an archive to the file tar, with a container image whose entry point is a statically linked program.
func (p *Playground) Image(ctx context.Context, program, tag, tar string) error {
	return p.run(ctx, "image", "--tag", tag, "--output", tar, program)
}

// Partition drops all packets between two clusters.
func (p *Playground) Partition(ctx context.Context, a, b string) error {
	return p.run(ctx, "partition", a, b)
}

// Restart kills a node of a cluster and starts it again.
func (p *Playground) Restart(ctx context.Context, cluster, node string) error {
	return p.run(ctx, "restart", cluster, node)
}

// Heal ends the partition of two clusters.
func (p *Playground) Heal(ctx context.Context, a, b string) error {
	return p.run(ctx, "heal", a, b)
}

// Exec runs a command on a node, and returns its output.
func (p *Playground) Exec(ctx context.Context, node string, command ...string) (string, error) {
	args := append([]string{"exec", node, "--"}, command...)
	result := Run(p.command(ctx, args...))
	return result.Stdout, result.Err
}

func (p *Playground) run(ctx context.Context, args ...string) error {
	cmd := p.command(ctx, args...)
	if p.Log != nil {
		cmd.Stdout, cmd.Stderr = p.Log, p.Log
	}
	return Run(cmd).Err
}

func (p *Playground) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := Command(ctx, p.Bin("playground"), append([]string{"--instance", p.Instance}, args...)...)
	cmd.Dir = p.Root
	return cmd
}

// Command returns a command that receives SIGTERM when ctx ends, and is killed if it does not
// terminate. It has its own process group, so that Ctrl-C reaches only the test, which then
// terminates its commands in order.
func Command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// Result is the result of a program.
type Result struct {
	Stdout, Stderr string
	// Code is the exit code, and -1 if the program was killed or did not start.
	Code int
	// Err is nil if the exit code is 0. Otherwise it has the command, the cause and the standard
	// error.
	Err error
}

// Run runs cmd until it ends. The result has the output, unless cmd redirects it.
func Run(cmd *exec.Cmd) Result {
	var stdout, stderr bytes.Buffer
	if cmd.Stdout == nil {
		cmd.Stdout = &stdout
	}
	if cmd.Stderr == nil {
		cmd.Stderr = &stderr
	}
	err := cmd.Run()
	result := Result{Stdout: stdout.String(), Stderr: stderr.String(), Code: -1}
	if cmd.ProcessState != nil {
		result.Code = cmd.ProcessState.ExitCode()
	}
	if err != nil {
		name := filepath.Base(cmd.Path)
		result.Err = fmt.Errorf("%s %s: %w: %s", name, strings.Join(cmd.Args[1:], " "), err, strings.TrimSpace(result.Stderr))
	}
	return result
}
