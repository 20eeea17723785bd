// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Process is a process on a node.
type Process struct {
	// PID is the process ID in the PID namespace of the node.
	PID int
	// Args are the arguments of the process, beginning with its program.
	Args []string
	// CPU is the processor time of the process and of its terminated children.
	CPU time.Duration
	// RSS and PeakRSS are the current and the maximal resident set size in bytes.
	RSS, PeakRSS int64
	// Start is the start time in clock ticks after the boot of the machine. It distinguishes
	// processes with the same PID.
	Start int64
}

// Started returns the time at which the process started. It may be one clock tick too early.
func (p Process) Started() (time.Time, error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return time.Time{}, fmt.Errorf("reading the time since the boot: %w", err)
	}
	return time.Now().Add(time.Duration(p.Start)*clockTick - time.Duration(now.Nano())), nil
}

// Program returns the base name of the program.
func (p Process) Program() string {
	if len(p.Args) == 0 {
		return ""
	}
	return path.Base(p.Args[0])
}

// clockTick is the unit of times in /proc/PID/stat, which is a hundredth of a second on every Linux
// architecture that Kubernetes supports.
const clockTick = 10 * time.Millisecond

// listProcesses is a script that prints a line for each process with the fields stat, cmdline,
// VmRSS and VmHWM. It skips processes that end while it reads their files.
const listProcesses = `cd /proc && for p in [0-9]*; do
	{ read -r stat <$p/stat; } 2>/dev/null || continue
	cmdline=$(tr '\000\n\t' '\001  ' <$p/cmdline) || continue
	rss=0 peak=0
	while read -r key value unit; do
		case $key in VmRSS:) rss=$value ;; VmHWM:) peak=$value ;; esac
	done 2>/dev/null <$p/status
	printf '%s\t%s\t%s\t%s\n' "$stat" "$cmdline" "$rss" "$peak"
done 2>/dev/null`

// Processes returns all processes of a node, including those of its containers.
func (p *Playground) Processes(ctx context.Context, node string) ([]Process, error) {
	output, err := p.Exec(ctx, node, "sh", "-c", listProcesses)
	if err != nil {
		return nil, err
	}
	processes, err := parseProcesses(output)
	if err != nil {
		return nil, fmt.Errorf("listing processes of node %s: %w", node, err)
	}
	return processes, nil
}

// Kill sends SIGKILL to a process of a node.
func (p *Playground) Kill(ctx context.Context, node string, process Process) error {
	_, err := p.Exec(ctx, node, "kill", "-KILL", strconv.Itoa(process.PID))
	return err
}

func parseProcesses(output string) ([]Process, error) {
	var processes []Process
	for line := range strings.Lines(output) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(fields) != 4 {
			return nil, fmt.Errorf("line %q has %d fields, want 4", line, len(fields))
		}
		process, err := parseStat(fields[0])
		if err != nil {
			return nil, err
		}
		if arguments := strings.TrimSuffix(fields[1], "\001"); arguments != "" {
			process.Args = strings.Split(arguments, "\001")
		}
		for i, target := range []*int64{&process.RSS, &process.PeakRSS} {
			kilobytes, err := strconv.ParseInt(fields[2+i], 10, 64)
			if err != nil {
				return nil, fmt.Errorf("parsing memory of process %d: %w", process.PID, err)
			}
			*target = kilobytes << 10
		}
		processes = append(processes, process)
	}
	return processes, nil
}

// parseStat parses /proc/PID/stat, see proc_pid_stat(5).
func parseStat(stat string) (Process, error) {
	number, _, _ := strings.Cut(stat, " ")
	pid, err := strconv.Atoi(number)
	if err != nil {
		return Process{}, fmt.Errorf("stat %q: %w", stat, err)
	}
	// The program name in parentheses may contain spaces and parentheses, so the remaining fields
	// begin after the last parenthesis.
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	const third, utime, cstime, starttime = 3, 14, 17, 22
	if len(fields) <= starttime-third {
		return Process{}, fmt.Errorf("stat %q has too few fields", stat)
	}
	process := Process{PID: pid}
	for i := utime; i <= cstime; i++ {
		ticks, err := strconv.ParseInt(fields[i-third], 10, 64)
		if err != nil {
			return Process{}, fmt.Errorf("stat %q: %w", stat, err)
		}
		process.CPU += time.Duration(ticks) * clockTick
	}
	process.Start, err = strconv.ParseInt(fields[starttime-third], 10, 64)
	return process, err
}
