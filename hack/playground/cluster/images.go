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
	"strings"

	"liqo.io/federation/hack/playground/build"
	"liqo.io/federation/hack/playground/image"
	"liqo.io/federation/hack/playground/sandbox"
	"liqo.io/federation/hack/playground/state"
)

// Images that every node of every cluster has.
const (
	pauseImage       = "liqo.io/playground/pause:v1"
	corednsImage     = "liqo.io/playground/coredns:v1.15.0"
	provisionerImage = "liqo.io/playground/local-provisioner:v1"
	// AgnhostImage is the server of Kubernetes' own end-to-end tests.
	AgnhostImage = "registry.k8s.io/e2e-test-images/agnhost:2.65"
)

// idLabel holds the ID of an image as it was loaded.
const idLabel = "playground.liqo.io/id"

// applets that people look for in a container of agnhost, all by busybox.
var applets = []string{"cat", "date", "echo", "env", "false", "head", "hostname", "id", "ip", "kill", "ls", "nc",
	"nslookup", "ps", "seq", "sh", "sleep", "stty", "tail", "test", "touch", "true", "tty", "wc", "wget", "yes"}

// BaseImages returns the archives of the images that a cluster needs, the pause
// image first, and makes those that are missing.
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
		// The provisioner makes directories below one that root owns.
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
			return nil, fmt.Errorf("image %s: %w", c.config.Tag, err)
		}
		if err := image.Write(archive, c.config.Tag, img); err != nil {
			return nil, err
		}
	}
	return archives, nil
}

func importImage(ctx context.Context, n *state.Node, ctr, archive string) (bool, error) {
	archived, err := image.Read(archive)
	if err != nil {
		return false, err
	}
	present, err := runCtr(ctx, n, ctr, nil, "images", "list")
	if err != nil {
		return false, err
	}
	missing := false
	for _, tag := range archived.Tags {
		missing = missing || !hasImage(present, tag, archived.ID)
	}
	if !missing {
		return false, nil
	}
	// The node does not see every directory of the machine, so it reads from here.
	f, err := os.Open(archive)
	if err != nil {
		return false, err
	}
	defer f.Close()
	if _, err := runCtr(ctx, n, ctr, f, "images", "import", "--local", "-"); err != nil {
		return false, fmt.Errorf("load %s: %w", archive, err)
	}
	for _, tag := range archived.Tags {
		if _, err := runCtr(ctx, n, ctr, nil, "images", "label", tag, idLabel+"="+archived.ID); err != nil {
			return false, err
		}
	}
	return true, nil
}

// hasImage looks for a tag with our label in what `ctr images list` prints.
func hasImage(list, tag, id string) bool {
	for _, line := range strings.Split(list, "\n") {
		fields := strings.Fields(line)
		if len(fields) > 1 && fields[0] == tag && strings.Contains(fields[len(fields)-1], idLabel+"="+id) {
			return true
		}
	}
	return false
}

func runCtr(ctx context.Context, n *state.Node, ctr string, stdin *os.File, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, ctr, append([]string{"--namespace=k8s.io"}, args...)...)
	cmd.Dir = "/"
	if stdin != nil {
		cmd.Stdin = stdin
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := sandbox.Enter(n.Holder, true, cmd.Run); err != nil {
		return "", fmt.Errorf("node %s: ctr %s: %w: %s", n.Name, strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}
