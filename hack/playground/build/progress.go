// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// progress prints the progress of go build -v, which prints the name of each package that it compiles.
type progress struct {
	out      *os.File
	title    string
	terminal bool
	started  time.Time

	mu       sync.Mutex
	partial  []byte
	tail     []string
	current  string
	packages int
	done     chan struct{}
	drawing  sync.WaitGroup
}

func newProgress(out *os.File, title string) *progress {
	p := &progress{
		out: out, title: title, terminal: term.IsTerminal(int(out.Fd())), started: time.Now(), done: make(chan struct{}),
	}
	if p.terminal {
		p.drawing.Go(p.redraw)
	} else {
		fmt.Fprintln(out, title)
	}
	return p
}

// Write parses the output of go build.
func (p *progress) Write(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.partial = append(p.partial, data...)
	for {
		line, rest, found := bytes.Cut(p.partial, []byte("\n"))
		if !found {
			return len(data), nil
		}
		p.partial = append([]byte(nil), rest...)
		p.line(string(line))
	}
}

func (p *progress) line(line string) {
	if isPackage(line) {
		p.packages++
		p.current = line
		return
	}
	p.current = line
	p.tail = append(p.tail, line)
	if len(p.tail) > 40 {
		p.tail = p.tail[1:]
	}
}

// isPackage reports whether a line is the name of a package, and not a message of the compiler.
func isPackage(line string) bool { return line != "" && !strings.ContainsAny(line, " :#\t") }

func (p *progress) redraw() {
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-p.done:
			return
		case <-ticker.C:
			p.mu.Lock()
			line := fmt.Sprintf("%s  %s  %d packages  %s", p.title, p.elapsed(), p.packages, p.current)
			p.mu.Unlock()
			width, _, err := term.GetSize(int(p.out.Fd()))
			if err == nil && width > 1 && len(line) >= width {
				line = line[:width-1]
			}
			fmt.Fprintf(p.out, "\r\x1b[K%s", line)
		}
	}
}

func (p *progress) elapsed() time.Duration { return time.Since(p.started).Round(time.Second) }

func (p *progress) finish(ok bool) {
	close(p.done)
	p.drawing.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	start := ""
	if p.terminal {
		start = "\r\x1b[K"
	}
	verdict := "done"
	if !ok {
		verdict = "failed"
	}
	fmt.Fprintf(p.out, "%s%s: %s in %s, %d packages compiled\n", start, p.title, verdict, p.elapsed(), p.packages)
}

// failure returns the last lines that the compiler printed, 40 at most, without names of packages.
func (p *progress) failure() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.tail, "\n")
}
