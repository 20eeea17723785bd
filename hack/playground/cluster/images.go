// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"liqo.io/federation/hack/playground/build"
	"liqo.io/federation/hack/playground/image"
	"liqo.io/federation/hack/playground/sandbox"
	"liqo.io/federation/hack/playground/state"
)

// Images that are loaded into every node.
const (
	pauseImage       = "liqo.io/playground/pause:v1"
	corednsImage     = "liqo.io/playground/coredns:v1.15.0"
	provisionerImage = "liqo.io/playground/local-provisioner:v1"
	// AgnhostImage is the image of agnhost, the server of Kubernetes' own end-to-end tests.
	AgnhostImage = "registry.k8s.io/e2e-test-images/agnhost:2.65"
)

// idLabel is the label by which containerd records the ID (see image.Archived) of the archive that an image was loaded
// from.
const idLabel = "playground.liqo.io/id"

// applets are the programs of busybox in the agnhost image.
var applets = []string{"cat", "date", "echo", "env", "false", "head", "hostname", "id", "ip", "kill", "ls", "nc",
	"nslookup", "ps", "seq", "sh", "sleep", "stty", "tail", "test", "touch", "true", "tty", "wc", "wget", "yes"}

// BaseImages returns the archives of the images of every node, the pause image first. It builds missing archives.
func BaseImages(ctx context.Context, tools *build.Set) ([]string, error) {
	links := map[string]string{}
	for _, a := range applets {
		links["/bin/"+a] = "busybox"
	}
	var archives []string
	for _, c := range []struct {
		program string
		config  image.Config
	}{
		{"nodeinit", image.Config{Tag: pauseImage}},
		{"coredns", image.Config{Tag: corednsImage}},
		// The provisioner creates directories below one that root owns.
		{"local-provisioner", image.Config{Tag: provisionerImage, User: "0:0"}},
		{"agnhost", image.Config{Tag: AgnhostImage, Links: links, Packages: []string{"busybox-static"},
			PackageCache: filepath.Join(tools.Cache, "packages")}},
	} {
		program := tools.Path(c.program)
		archive := filepath.Join(filepath.Dir(program), "image.tar")
		archives = append(archives, archive)
		if _, err := os.Stat(archive); err == nil {
			continue
		}
		c.config.Binary = program
		img, err := image.Build(ctx, c.config)
		if err != nil {
			return nil, fmt.Errorf("building image %s: %w", c.config.Tag, err)
		}
		if err := image.Write(archive, c.config.Tag, img); err != nil {
			return nil, err
		}
	}
	return archives, nil
}

// Import loads image archives into a node, in the given order, and returns how many it loaded. It skips an
// archive if the node has the same content.
func (c *Cluster) Import(ctx context.Context, n *state.Node, archives ...string) (int, error) {
	present, err := c.ctr(ctx, n, nil, "images", "list")
	if err != nil {
		return 0, err
	}
	loaded := 0
	for _, path := range archives {
		archive, err := image.Read(path)
		if err != nil {
			return loaded, err
		}
		if !slices.ContainsFunc(archive.Tags, func(tag string) bool { return !hasImage(present, tag, archive.ID) }) {
			continue
		}
		if err := c.importOne(ctx, n, path, archive); err != nil {
			return loaded, err
		}
		loaded++
	}
	return loaded, nil
}

func (c *Cluster) importOne(ctx context.Context, n *state.Node, path string, archive image.Archived) error {
	// This process reads the archive and passes it to ctr, because the mount namespace of the node may hide its directory.
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := c.ctr(ctx, n, f, "images", "import", "--local", "-"); err != nil {
		return fmt.Errorf("loading %s: %w", path, err)
	}
	for _, tag := range archive.Tags {
		if _, err := c.ctr(ctx, n, nil, "images", "label", tag, idLabel+"="+archive.ID); err != nil {
			return err
		}
	}
	return nil
}

// hasImage reports whether the output of ctr images list contains a tag with the given ID as its label.
func hasImage(list, tag, id string) bool {
	for _, line := range strings.Split(list, "\n") {
		fields := strings.Fields(line)
		if len(fields) > 1 && fields[0] == tag && strings.Contains(fields[len(fields)-1], idLabel+"="+id) {
			return true
		}
	}
	return false
}

func (c *Cluster) ctr(ctx context.Context, n *state.Node, stdin io.Reader, args ...string) (string, error) {
	return c.run(ctx, n, stdin, c.Tools.Path("ctr"), append([]string{"--namespace=k8s.io"}, args...)...)
}

// run runs a program in the namespaces of a node, and returns its output. A nil stdin is empty.
func (c *Cluster) run(
	ctx context.Context, n *state.Node, stdin io.Reader, program string, args ...string,
) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = "/"
	cmd.Stdin = stdin
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := sandbox.Enter(n.Holder, true, cmd.Run); err != nil {
		return "", fmt.Errorf("node %s: %s %s: %w: %s", n.Name, filepath.Base(program), strings.Join(args, " "), err,
			strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}
