// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxRequest bounds a request and an answer, in bytes.
	maxRequest = 16 << 10
	// askTimeout bounds a request that is answered by one line. Writing everything to
	// the disk may take a while.
	askTimeout = 10 * time.Minute
)

// request is the first line of a connection. Exactly one field is set.
type request struct {
	// Rsync are the arguments of rsync as a server; the rest of the connection is its
	// protocol.
	Rsync []string `json:"rsync,omitempty"`
	// Space requests the free space of the target.
	Space bool `json:"space,omitempty"`
	// Sync writes everything that was received to the disk.
	Sync bool `json:"sync,omitempty"`
	// Pass requests whether the last pass is to start.
	Pass bool `json:"pass,omitempty"`
}

// answer is the line that answers a request other than rsync.
type answer struct {
	// Space is how many bytes the target has room for, those of its files included.
	Space int64 `json:"space,omitempty"`
	// Last reports whether the last pass is to start.
	Last bool `json:"last,omitempty"`
	// Error says why there is no answer.
	Error string `json:"error,omitempty"`
}

// serve answers one connection.
func serve(o *Options, in io.Reader, out io.Writer) error {
	r, err := readRequest(in)
	if err != nil {
		return err
	}
	var a answer
	switch {
	case len(r.Rsync) > 0:
		err = o.execRsync(r.Rsync)
	case r.Space:
		a.Space, err = space(o.Data)
	case r.Sync:
		err = syncFileSystem(o.Data)
	case r.Pass:
		a.Last, err = o.last()
	default:
		err = errors.New("reading a request: it requests nothing")
	}
	if err != nil {
		a.Error = sanitize(err.Error())
	}
	line, encodeErr := json.Marshal(a)
	if encodeErr != nil {
		return fmt.Errorf("encoding an answer: %w", encodeErr)
	}
	if _, err := out.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("answering: %w", err)
	}
	return err
}

// last reports whether the file of the receiver starts the last pass.
func (o *Options) last() (bool, error) {
	content, err := os.ReadFile(o.Pass)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, fmt.Errorf("reading which pass to copy: %w", err)
	}
	return strings.TrimSpace(string(content)) == PassFinal, nil
}

// readRequest reads one line, byte by byte: what follows is for rsync.
func readRequest(in io.Reader) (*request, error) {
	var line []byte
	for one := make([]byte, 1); ; {
		if _, err := io.ReadFull(in, one); err != nil {
			return nil, fmt.Errorf("reading a request: %w", err)
		}
		if one[0] == '\n' {
			break
		}
		if line = append(line, one[0]); len(line) > maxRequest {
			return nil, fmt.Errorf("reading a request: it has more than %d bytes", maxRequest)
		}
	}
	r := &request{}
	if err := json.Unmarshal(line, r); err != nil {
		return nil, fmt.Errorf("reading a request: %w", err)
	}
	return r, nil
}

// execRsync becomes rsync as a server that writes to the volume.
func (o *Options) execRsync(args []string) error {
	args, err := serverArguments(args, o.Data)
	if err != nil {
		return err
	}
	path, err := exec.LookPath("rsync")
	if err != nil {
		return fmt.Errorf("finding rsync: %w", err)
	}
	return fmt.Errorf("starting rsync: %w", syscall.Exec(path, append([]string{"rsync"}, args...), os.Environ()))
}

var (
	shortOptions = regexp.MustCompile(`^-([A-Za-z.0-9]+|@-1)$`)
	longOptions  = regexp.MustCompile(`^--(server|delete|delete-before|checksum|numeric-ids|inplace|partial|sparse|specials|from0|relative|` +
		`no-[a-z-]+|ignore-errors|timeout=[0-9]+|bwlimit=[0-9]+|log-format=[%A-Za-z]*|out-format=[%A-Za-z]*)$`)
)

// serverArguments returns the arguments of rsync as a server for those that a sender
// requests. The server receives, into the directory of the volume and with none of
// the options that name other files.
func serverArguments(args []string, data string) ([]string, error) {
	dot := slices.Index(args, ".")
	if dot < 1 || len(args) != dot+2 || args[0] != "--server" {
		return nil, errors.New("reading a request: it is not that of an rsync that sends")
	}
	for _, arg := range args[:dot] {
		if !shortOptions.MatchString(arg) && !longOptions.MatchString(arg) {
			return nil, fmt.Errorf("reading a request: the option %q of rsync is not allowed", sanitize(arg))
		}
	}
	return append(slices.Clone(args[:dot]), ".", strings.TrimSuffix(data, "/")+"/"), nil
}

// space returns how many bytes of files a directory's file system has room for, those
// that it holds included.
func space(directory string) (int64, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(directory, &fs); err != nil {
		return 0, fmt.Errorf("reading the free space of the target: %w", err)
	}
	tree, err := walk(directory)
	if err != nil {
		return 0, err
	}
	return int64(fs.Bavail)*fs.Bsize + tree.allocated, nil
}

// syncFileSystem writes one file system to the disk, not all of the node.
func syncFileSystem(directory string) error {
	root, err := os.Open(directory)
	if err != nil {
		return fmt.Errorf("opening the target: %w", err)
	}
	defer func() { _ = root.Close() }()
	if err := unix.Syncfs(int(root.Fd())); err != nil {
		return fmt.Errorf("writing the target to its disk: %w", err)
	}
	return nil
}
