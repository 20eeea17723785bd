// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestProcessesAreReadFromProc(t *testing.T) {
	stat := func(pid, name string) string {
		return pid + " (" + name + ") S 1 2 3 4 5 6 7 8 9 10 100 50 20 5 20 0 7 0 4242 1000 2000"
	}
	for _, test := range []struct {
		name   string
		output string
		want   []Process
	}{
		{"nothing", "", nil},
		{
			"a program with arguments",
			stat("17", "federation-virtual-kubelet") +
				"\t/bin/federation-virtual-kubelet\001--node-name=liqo-milan\001\t2048\t4096\n",
			[]Process{{PID: 17, Args: []string{"/bin/federation-virtual-kubelet", "--node-name=liqo-milan"},
				CPU: 1750 * time.Millisecond, RSS: 2 << 20, PeakRSS: 4 << 20, Start: 4242}},
		},
		{
			"a name that looks like fields, and no command line",
			stat("3", "a) R (b 1 2") + "\t\t0\t0\n",
			[]Process{{PID: 3, CPU: 1750 * time.Millisecond, Start: 4242}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := parseProcesses(test.output)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("processes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDamagedProcessLinesAreErrors(t *testing.T) {
	for _, output := range []string{"17 (x) S 1\t\t0\t0\n", "no fields\n", "x (y) S\t\t0\t0\n"} {
		if got, err := parseProcesses(output); err == nil {
			t.Errorf("%q gave %v and no error", output, got)
		}
	}
}

func TestProcessesIncludeThisOne(t *testing.T) {
	output, err := exec.CommandContext(t.Context(), "sh", "-c", listProcesses).Output()
	if err != nil {
		t.Fatal(err)
	}
	processes, err := parseProcesses(string(output))
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(processes, func(p Process) bool { return p.PID == os.Getpid() })
	if i < 0 {
		t.Fatalf("process %d is not among %d processes", os.Getpid(), len(processes))
	}
	if diff := cmp.Diff(os.Args, processes[i].Args); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
	if processes[i].RSS <= 0 || processes[i].PeakRSS < processes[i].RSS {
		t.Errorf("memory %d, peak %d", processes[i].RSS, processes[i].PeakRSS)
	}
}

func TestStartOfAProcess(t *testing.T) {
	before := time.Now()
	child := exec.CommandContext(t.Context(), "cat")
	input, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	after := time.Now()
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(child.Process.Pid), "stat"))
	if err := errors.Join(err, input.Close(), child.Wait()); err != nil {
		t.Fatal(err)
	}
	process, err := parseStat(string(stat))
	if err != nil {
		t.Fatal(err)
	}
	started, err := process.Started()
	if err != nil {
		t.Fatal(err)
	}
	// Each of the two clocks can be one tick behind the other.
	if started.Before(before.Add(-2*clockTick)) || started.After(after.Add(clockTick)) {
		t.Errorf("started %s, but that was between %s and %s", started, before, after)
	}
}
