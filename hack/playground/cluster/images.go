// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"fmt"
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

// Images of every node.
const (
	pauseImage       = "liqo.io/playground/pause:v1"
	corednsImage     = "liqo.io/playground/coredns:v1.15.0"
	provisionerImage = "liqo.io/playground/local-provisioner:v1"
	// AgnhostImage is the server of the end-to-end tests of Kubernetes.
	AgnhostImage = "registry.k8s.io/e2e-test-images/agnhost:2.65"
)

// idLabel is the label of the ID with which an image was loaded.
const idLabel = "playground.liqo.io/id"

// applets are the programs of busybox in the image of agnhost.
var applets = []string{"cat", "date", "echo", "env", "false", "head", "hostname", "id", "ip", "kill", "ls", "nc",
	"nslookup", "ps", "seq", "sh", "sleep", "stty", "tail", "test", "touch", "true", "tty", "wc", "wget", "yes"}

// BaseImages returns the archives of the images of every node, the pause image first, and builds missing
// ones.
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
		// The provisioner creates directories in one that root owns.
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

// Import loads the image archives that a node does not have with the same content, in this order, and
// returns their number.
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
	// The archive is read outside of the node, which does not have every directory of the machine.
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

// hasImage reports whether output of ctr images list has a tag with the label of an ID.
func hasImage(list, tag, id string) bool {
	for _, line := range strings.Split(list, "\n") {
		fields := strings.Fields(line)
		if len(fields) > 1 && fields[0] == tag && strings.Contains(fields[len(fields)-1], idLabel+"="+id) {
			return true
		}
	}
	return false
}

func (c *Cluster) ctr(ctx context.Context, n *state.Node, stdin *os.File, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.Tools.Path("ctr"), append([]string{"--namespace=k8s.io"}, args...)...)
	cmd.Dir = "/"
	if stdin != nil {
		cmd.Stdin = stdin
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := sandbox.Enter(n.Holder, true, cmd.Run); err != nil {
		return "", fmt.Errorf("node %s: ctr %s: %w: %s", n.Name, strings.Join(args, " "), err,
			strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}
