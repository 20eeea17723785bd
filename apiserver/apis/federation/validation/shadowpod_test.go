// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

func goodPod() *federation.ShadowPod {
	return &federation.ShadowPod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web-0", Namespace: "web-rome-1a2b3c",
			Labels:      map[string]string{v1alpha1.LabelOrigin: romeID},
			Annotations: map[string]string{v1alpha1.AnnotationOriginUID: invitationUID},
		},
		Spec: federation.ShadowPodSpec{Pod: corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: "prepare", Image: "example.org/prepare:1"}},
			Containers: []corev1.Container{{Name: "web", Image: "example.org/web:1",
				Ports: []corev1.ContainerPort{{ContainerPort: 80}}}},
			AutomountServiceAccountToken: ptr.To(false),
			ServiceAccountName:           "default",
			SchedulerName:                corev1.DefaultSchedulerName,
			Tolerations: []corev1.Toleration{{Key: "node.kubernetes.io/not-ready",
				Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To[int64](300)}},
			Volumes: []corev1.Volume{{Name: "scratch",
				VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
			NodeSelector: map[string]string{"topology.kubernetes.io/zone": "a"},
		}},
	}
}

func volume(source corev1.VolumeSource) func(*corev1.PodSpec) {
	return func(p *corev1.PodSpec) { p.Volumes = append(p.Volumes, corev1.Volume{Name: "v", VolumeSource: source}) }
}

func security(change func(*corev1.SecurityContext)) func(*corev1.PodSpec) {
	return func(p *corev1.PodSpec) {
		p.Containers[0].SecurityContext = &corev1.SecurityContext{}
		change(p.Containers[0].SecurityContext)
	}
}

func nodeAffinity(term corev1.NodeSelectorTerm) func(*corev1.PodSpec) {
	return func(p *corev1.PodSpec) {
		p.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{term}}}}
	}
}

func preferred(term corev1.NodeSelectorTerm) func(*corev1.PodSpec) {
	return func(p *corev1.PodSpec) {
		p.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 1, Preference: term}}}}
	}
}

func podAntiAffinity(term corev1.PodAffinityTerm) func(*corev1.PodSpec) {
	return func(p *corev1.PodSpec) {
		p.Affinity = &corev1.Affinity{
			PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}}
	}
}

func debugger(changes ...func(*corev1.EphemeralContainer)) func(*corev1.PodSpec) {
	return func(p *corev1.PodSpec) {
		container := corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug",
			Image: "debug:1"}}
		for _, change := range changes {
			change(&container)
		}
		p.EphemeralContainers = append(p.EphemeralContainers, container)
	}
}

// Negative requests would reduce the quota usage of the consumer.
func TestNegativeRequestsAreRefused(t *testing.T) {
	negative := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("-1")}
	for path, change := range map[string]func(*corev1.PodSpec){
		"spec.pod.containers[0].resources.requests[cpu]":     func(p *corev1.PodSpec) { p.Containers[0].Resources.Requests = negative },
		"spec.pod.containers[0].resources.limits[cpu]":       func(p *corev1.PodSpec) { p.Containers[0].Resources.Limits = negative },
		"spec.pod.initContainers[0].resources.requests[cpu]": func(p *corev1.PodSpec) { p.InitContainers[0].Resources.Requests = negative },
		"spec.pod.resources.requests[cpu]":                   func(p *corev1.PodSpec) { p.Resources = &corev1.ResourceRequirements{Requests: negative} },
		"spec.pod.overhead[cpu]":                             func(p *corev1.PodSpec) { p.Overhead = negative },
	} {
		pod := goodPod()
		change(&pod.Spec.Pod)
		if errs := ValidateShadowPod(pod); len(errs) != 1 || errs[0].Field != path {
			t.Errorf("%s: got %v", path, errs)
		}
	}
}

// escapes are changes of a pod by which it would access or select a node, or use an identity or a
// priority of the provider.
var escapes = map[string]func(*corev1.PodSpec){
	"by its name":     func(p *corev1.PodSpec) { p.NodeName = "milan-cp" },
	"by its hostname": func(p *corev1.PodSpec) { p.NodeSelector = map[string]string{corev1.LabelHostname: "milan-cp"} },
	"by its role": func(p *corev1.PodSpec) {
		p.NodeSelector = map[string]string{"node-role.kubernetes.io/control-plane": ""}
	},
	"by affinity to its name":        nodeAffinity(corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"milan-cp"}}}}),
	"by affinity to its hostname":    nodeAffinity(term(corev1.LabelHostname, corev1.NodeSelectorOpIn, "milan-cp")),
	"by affinity to its role":        nodeAffinity(term("node-role.kubernetes.io/control-plane", corev1.NodeSelectorOpExists)),
	"by preference for its hostname": preferred(term(corev1.LabelHostname, corev1.NodeSelectorOpIn, "milan-cp")),
	"by preference for its name":     preferred(corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"milan-cp"}}}}),
	"by tolerating everything":       func(p *corev1.PodSpec) { p.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} },
	"by tolerating the control plane": func(p *corev1.PodSpec) {
		p.Tolerations = []corev1.Toleration{{Key: "node-role.kubernetes.io/control-plane",
			Operator: corev1.TolerationOpExists}}
	},
	"by tolerating that it is cordoned": func(p *corev1.PodSpec) {
		p.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists,
			Effect: corev1.TaintEffectNoSchedule}}
	},
	"by tolerating that it lacks memory": func(p *corev1.PodSpec) {
		p.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeMemoryPressure, Operator: corev1.TolerationOpExists}}
	},
	"by tolerating that it is not set up": func(p *corev1.PodSpec) {
		p.Tolerations = []corev1.Toleration{{Key: "node.cloudprovider.kubernetes.io/uninitialized",
			Operator: corev1.TolerationOpExists}}
	},
	"by tolerating virtual nodes": func(p *corev1.PodSpec) {
		p.Tolerations = []corev1.Toleration{{Key: v1alpha1.TaintVirtualNode, Operator: corev1.TolerationOpExists}}
	},
	"by keeping pods of others off its node": podAntiAffinity(corev1.PodAffinityTerm{
		TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{},
		Namespaces: []string{"web-rome-1a2b3c", "web-naples-4d5e6f"},
	}),
	"by keeping all pods off its node": podAntiAffinity(corev1.PodAffinityTerm{
		TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{}, NamespaceSelector: &metav1.LabelSelector{},
	}),
	"by keeping some pods off its node": podAntiAffinity(corev1.PodAffinityTerm{
		TopologyKey:       corev1.LabelHostname,
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}},
	}),
	"by following a pod of others": func(p *corev1.PodSpec) {
		p.Affinity = &corev1.Affinity{
			PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{}, Namespaces: []string{"kube-system"}}}}}
	},
	"by preferring pods of others": func(p *corev1.PodSpec) {
		p.Affinity = &corev1.Affinity{
			PodAffinity: &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
				{Weight: 1, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, NamespaceSelector: &metav1.LabelSelector{}}}}}}
	},
	"by avoiding pods of others": func(p *corev1.PodSpec) {
		p.Affinity = &corev1.Affinity{
			PodAntiAffinity: &corev1.PodAntiAffinity{
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
					{Weight: 1, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, Namespaces: []string{""}}}}}}
	},
	"by delaying a drain":  func(p *corev1.PodSpec) { p.EvictionResponders = []corev1.EvictionResponder{{}} },
	"by joining a group":   func(p *corev1.PodSpec) { p.SchedulingGroup = &corev1.PodSchedulingGroup{} },
	"by another scheduler": func(p *corev1.PodSpec) { p.SchedulerName = "anywhere" },

	"through its network":              func(p *corev1.PodSpec) { p.HostNetwork = true },
	"through its processes":            func(p *corev1.PodSpec) { p.HostPID = true },
	"through its IPC":                  func(p *corev1.PodSpec) { p.HostIPC = true },
	"through its files":                volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}),
	"through its socket of containerd": volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/run/containerd", Type: ptr.To(corev1.HostPathSocket)}}),
	"through its ports":                func(p *corev1.PodSpec) { p.Containers[0].Ports[0].HostPort = 10250 },
	"through the ports of an init": func(p *corev1.PodSpec) {
		p.InitContainers[0].Ports = []corev1.ContainerPort{{ContainerPort: 1, HostPort: 22}}
	},
	"through a probe of its loopback": func(p *corev1.PodSpec) {
		p.Containers[0].LivenessProbe = &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Host: "127.0.0.1"}}}
	},
	"through the hook of a stop": func(p *corev1.PodSpec) {
		p.Containers[0].Lifecycle = &corev1.Lifecycle{
			PreStop: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Host: "127.0.0.1"}}}
	},

	"as a privileged container": security(func(s *corev1.SecurityContext) { s.Privileged = ptr.To(true) }),
	"as a privileged init container": func(p *corev1.PodSpec) {
		p.InitContainers[0].SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true)}
	},
	"with a capability": security(func(s *corev1.SecurityContext) {
		s.Capabilities = &corev1.Capabilities{Add: []corev1.Capability{"SYS_ADMIN"}}
	}),
	"with all capabilities": security(func(s *corev1.SecurityContext) {
		s.Capabilities = &corev1.Capabilities{Add: []corev1.Capability{"ALL"}}
	}),
	"with an unmasked /proc": security(func(s *corev1.SecurityContext) { s.ProcMount = ptr.To(corev1.UnmaskedProcMount) }),
	"without seccomp": security(func(s *corev1.SecurityContext) {
		s.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}
	}),
	"without AppArmor": security(func(s *corev1.SecurityContext) {
		s.AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
	}),
	"with an SELinux role": security(func(s *corev1.SecurityContext) { s.SELinuxOptions = &corev1.SELinuxOptions{Role: "sysadm_r"} }),
	"with a sysctl of the kernel": func(p *corev1.PodSpec) {
		p.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "kernel.msgmax", Value: "1"}}}
	},
	"as a Windows host process": func(p *corev1.PodSpec) {
		p.SecurityContext = &corev1.PodSecurityContext{
			WindowsOptions: &corev1.WindowsSecurityContextOptions{HostProcess: ptr.To(true)}}
	},
	"as a privileged ephemeral container": debugger(func(c *corev1.EphemeralContainer) {
		c.SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true)}
	}),

	"as a service account":              func(p *corev1.PodSpec) { p.ServiceAccountName = "federation-controller-manager" },
	"as a service account, the old way": func(p *corev1.PodSpec) { p.DeprecatedServiceAccount = "admin" },
	"with a mounted token":              func(p *corev1.PodSpec) { p.AutomountServiceAccountToken = ptr.To(true) },
	"with a token by default":           func(p *corev1.PodSpec) { p.AutomountServiceAccountToken = nil },
	"with a projected token": volume(
		corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}}}}),
	"with a projected certificate": volume(
		corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{PodCertificate: &corev1.PodCertificateProjection{}}}}}),
	"with a system priority":   func(p *corev1.PodSpec) { p.PriorityClassName = "system-node-critical" },
	"with a priority by value": func(p *corev1.PodSpec) { p.Priority = ptr.To[int32](2000001000) },
}

func TestShadowPodCannotEscapeToNode(t *testing.T) {
	if errs := ValidateShadowPod(goodPod()); len(errs) > 0 {
		t.Fatalf("a good pod is refused: %v", errs)
	}
	for name, escape := range escapes {
		t.Run(name, func(t *testing.T) {
			pod := goodPod()
			escape(&pod.Spec.Pod)
			if errs := ValidateShadowPod(pod); len(errs) == 0 {
				t.Error("it is created")
			} else if !strings.HasPrefix(errs[0].Field, "spec.pod") || errs[0].Detail == "" {
				t.Errorf("it is refused without a path or a reason: %v", errs)
			}
			good := goodPod()
			good.ResourceVersion, pod.ResourceVersion = "1", "1"
			if errs := ValidateShadowPodUpdate(pod, good); len(errs) == 0 {
				t.Error("an update to it is accepted")
			}
		})
	}
	t.Run("by an annotation", func(t *testing.T) {
		good := goodPod()
		good.ResourceVersion = "1"
		pod := good.DeepCopy()
		pod.Annotations["container.apparmor.security.beta.kubernetes.io/web"] = "unconfined"
		if errs := ValidateShadowPod(pod); len(errs) == 0 {
			t.Error("it is created")
		}
		if errs := ValidateShadowPodUpdate(pod, good); len(errs) == 0 {
			t.Error("an update to it is accepted")
		}
	})
}

func TestAffinityToPodsOfTheSameNamespaceIsAccepted(t *testing.T) {
	term := corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}
	named := term
	named.Namespaces = []string{"web-rome-1a2b3c"}
	for name, term := range map[string]corev1.PodAffinityTerm{"without a namespace": term,
		"with its own namespace": named} {
		pod := goodPod()
		pod.Spec.Pod.Affinity = &corev1.Affinity{
			PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}},
			PodAntiAffinity: &corev1.PodAntiAffinity{
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 1,
					PodAffinityTerm: term}}},
		}
		pod.Spec.Pod.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1,
			TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule}}
		if errs := ValidateShadowPod(pod); len(errs) > 0 {
			t.Errorf("a term %s is refused: %v", name, errs)
		}
	}
}

func TestShadowPodsWithSeveralEscapesAreRefused(t *testing.T) {
	var names []string
	for name := range escapes {
		names = append(names, name)
	}
	rapid.Check(t, func(rt *rapid.T) {
		pod := goodPod()
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 2, 5, rapid.ID[string]).Draw(rt, "escapes") {
			escapes[name](&pod.Spec.Pod)
		}
		if errs := ValidateShadowPod(pod); len(errs) == 0 {
			rt.Fatal("it is created")
		}
	})
}

func TestValidateShadowPodBoundsAPod(t *testing.T) {
	runCreate(t, goodPod(), ValidateShadowPod, map[string]wrong[*federation.ShadowPod]{
		"no containers":            {func(p *federation.ShadowPod) { p.Spec.Pod.Containers = nil }, []string{"spec.pod.containers"}},
		"a container without name": {func(p *federation.ShadowPod) { p.Spec.Pod.Containers[0].Name = "" }, []string{"spec.pod.containers[0].name"}},
		"an init without image":    {func(p *federation.ShadowPod) { p.Spec.Pod.InitContainers[0].Image = "" }, []string{"spec.pod.initContainers[0].image"}},
		"too many containers": {func(p *federation.ShadowPod) {
			p.Spec.Pod.Containers = many(maxContainers,
				func(i int) corev1.Container { return corev1.Container{Name: fmt.Sprintf("c%d", i), Image: "i"} })
		}, []string{"spec.pod.containers"}},
		"too many volumes": {func(p *federation.ShadowPod) {
			p.Spec.Pod.Volumes = many(maxVolumes,
				func(i int) corev1.Volume { return corev1.Volume{Name: fmt.Sprintf("v%d", i)} })
		}, []string{"spec.pod.volumes"}},
		"too many tolerations": {func(p *federation.ShadowPod) {
			p.Spec.Pod.Tolerations = many(maxTolerations,
				func(i int) corev1.Toleration { return corev1.Toleration{Key: fmt.Sprintf("t%d", i)} })
		}, []string{"spec.pod.tolerations"}},
		"too many terms": {func(p *federation.ShadowPod) {
			p.Spec.Pod.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: many(maxTerms,
					func(int) corev1.PodAffinityTerm { return corev1.PodAffinityTerm{} }),
				PreferredDuringSchedulingIgnoredDuringExecution: many(maxTerms,
					func(int) corev1.WeightedPodAffinityTerm { return corev1.WeightedPodAffinityTerm{} }),
			}}
		}, []string{"spec.pod.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution"}},
		"too many spreads": {func(p *federation.ShadowPod) {
			p.Spec.Pod.TopologySpreadConstraints = many(maxTerms,
				func(int) corev1.TopologySpreadConstraint { return corev1.TopologySpreadConstraint{} })
		}, []string{"spec.pod.topologySpreadConstraints"}},
		"too much of everything": {func(p *federation.ShadowPod) {
			p.Spec.Pod.Containers[0].Args = []string{strings.Repeat("x", maxShadowPod)}
		}, []string{"spec.pod"}},
		"too much in all": {func(p *federation.ShadowPod) {
			p.Annotations["note"], p.Spec.Pod.Containers[0].Args = strings.Repeat("x", maxShadowPod/2),
				[]string{strings.Repeat("x", maxShadowPod/2)}
		}, []string{"spec.pod"}},
	})
}

func TestShadowPodThatAnEarlierVersionStoredMayStayLarger(t *testing.T) {
	old := goodPod()
	old.ResourceVersion = "1"
	old.Annotations["note"] = strings.Repeat("x", maxShadowPod)
	old.Status = federation.ShadowPodStatus{
		Phase: corev1.PodFailed, Pod: &corev1.PodStatus{Message: strings.Repeat("x", maxPodStatus)},
	}
	released := old.DeepCopy()
	released.Finalizers = nil
	if errs := ValidateShadowPodUpdate(released, old); len(errs) > 0 {
		t.Errorf("an update of the finalizers is refused: %v", errs)
	}
	if errs := ValidateShadowPodStatusUpdate(old.DeepCopy(), old); len(errs) > 0 {
		t.Errorf("an update of the status is refused: %v", errs)
	}
	if errs := ValidateShadowPod(old); len(errs) == 0 {
		t.Error("a new one is accepted")
	}
	larger := old.DeepCopy()
	larger.Annotations["note"] += "x"
	if errs := ValidateShadowPodUpdate(larger, old); len(errs) == 0 {
		t.Error("a larger one is accepted")
	}
}

func TestShadowPodHasTheMutableFieldsOfAPod(t *testing.T) {
	good := goodPod()
	good.Spec.Pod.ActiveDeadlineSeconds = ptr.To[int64](100)
	good.Spec.Pod.Containers[0].Resources = corev1.ResourceRequirements{Requests: quantities("cpu", "1", "nvidia.com/gpu",
		"1"), Limits: quantities("cpu", "1", "nvidia.com/gpu", "1")}
	good.Spec.Pod.InitContainers = append(good.Spec.Pod.InitContainers,
		corev1.Container{Name: "proxy", Image: "example.org/proxy:1",
			RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)})
	good.ResourceVersion = "1"
	for name, change := range map[string]func(*federation.ShadowPod){
		"the image":            func(p *federation.ShadowPod) { p.Spec.Pod.Containers[0].Image = "example.org/web:2" },
		"the image of an init": func(p *federation.ShadowPod) { p.Spec.Pod.InitContainers[0].Image = "example.org/prepare:2" },
		"an earlier deadline":  func(p *federation.ShadowPod) { p.Spec.Pod.ActiveDeadlineSeconds = ptr.To[int64](50) },
		"one more toleration": func(p *federation.ShadowPod) {
			p.Spec.Pod.Tolerations = append(p.Spec.Pod.Tolerations, corev1.Toleration{Key: "gpu"})
		},
		"how long it is tolerated": func(p *federation.ShadowPod) { p.Spec.Pod.Tolerations[0].TolerationSeconds = ptr.To[int64](5) },
		"a label":                  func(p *federation.ShadowPod) { p.Labels["app"] = "web" },
		"CPU and memory": func(p *federation.ShadowPod) {
			p.Spec.Pod.Containers[0].Resources = corev1.ResourceRequirements{
				Requests: quantities("cpu", "2", "memory", "2Gi", "nvidia.com/gpu", "1"),
				Limits:   quantities("cpu", "2", "nvidia.com/gpu", "1"),
			}
		},
		"CPU of a sidecar": func(p *federation.ShadowPod) {
			p.Spec.Pod.InitContainers[1].Resources.Requests = quantities("cpu", "100m")
		},
	} {
		pod := good.DeepCopy()
		change(pod)
		if errs := ValidateShadowPodUpdate(pod, good); len(errs) > 0 {
			t.Errorf("%s cannot change: %v", name, errs)
		}
	}
	runUpdate(t, good, ValidateShadowPodUpdate, map[string]wrong[*federation.ShadowPod]{
		"a later deadline":     {func(p *federation.ShadowPod) { p.Spec.Pod.ActiveDeadlineSeconds = ptr.To[int64](101) }, []string{"spec.pod.activeDeadlineSeconds"}},
		"no deadline any more": {func(p *federation.ShadowPod) { p.Spec.Pod.ActiveDeadlineSeconds = nil }, []string{"spec.pod.activeDeadlineSeconds"}},
		"a toleration less":    {func(p *federation.ShadowPod) { p.Spec.Pod.Tolerations = nil }, []string{"spec.pod.tolerations"}},
		"another command":      {func(p *federation.ShadowPod) { p.Spec.Pod.Containers[0].Command = []string{"sh"} }, []string{"spec.pod"}},
		"no image":             {func(p *federation.ShadowPod) { p.Spec.Pod.Containers[0].Image = "" }, []string{"spec.pod"}},
		"another container": {func(p *federation.ShadowPod) {
			p.Spec.Pod.Containers = append(p.Spec.Pod.Containers, corev1.Container{Name: "more", Image: "i"})
		}, []string{"spec.pod"}},
		"no CPU any more": {func(p *federation.ShadowPod) {
			p.Spec.Pod.Containers[0].Resources.Requests = quantities("nvidia.com/gpu", "1")
		}, []string{"spec.pod.containers[0].resources.requests[cpu]"}},
		"no limit any more": {func(p *federation.ShadowPod) {
			p.Spec.Pod.Containers[0].Resources.Limits = quantities("nvidia.com/gpu", "1")
		}, []string{"spec.pod.containers[0].resources.limits[cpu]"}},
		"a negative request": {func(p *federation.ShadowPod) {
			p.Spec.Pod.Containers[0].Resources.Requests["cpu"] = resource.MustParse("-1")
		}, []string{"spec.pod.containers[0].resources.requests[cpu]"}},
		"another GPU": {func(p *federation.ShadowPod) {
			p.Spec.Pod.Containers[0].Resources.Requests["nvidia.com/gpu"] = resource.MustParse("2")
		}, []string{"spec.pod"}},
		"CPU of an init container": {func(p *federation.ShadowPod) {
			p.Spec.Pod.InitContainers[0].Resources.Requests = quantities("cpu", "2")
		}, []string{"spec.pod"}},
		"CPU of the whole pod": {func(p *federation.ShadowPod) {
			p.Spec.Pod.Resources = &corev1.ResourceRequirements{Requests: quantities("cpu", "2")}
		}, []string{"spec.pod"}},
		"another resize policy": {func(p *federation.ShadowPod) {
			p.Spec.Pod.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU,
				RestartPolicy: corev1.RestartContainer}}
		}, []string{"spec.pod"}},
		"another volume":    {func(p *federation.ShadowPod) { p.Spec.Pod.Volumes = nil }, []string{"spec.pod"}},
		"another local pod": {func(p *federation.ShadowPod) { p.Annotations[v1alpha1.AnnotationOriginUID] = "other" }, []string{"metadata.annotations[offloading.liqo.io/origin-uid]"}},
		"too many bytes": {func(p *federation.ShadowPod) {
			p.Spec.Pod.EphemeralContainers = []corev1.EphemeralContainer{
				{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
					Name: "debug", Image: "i", Args: []string{strings.Repeat("x", maxShadowPod)},
				}}}
		}, []string{"spec.pod"}},
		"too many bytes of labels": {func(p *federation.ShadowPod) {
			for i := range maxShadowPod / 10 {
				p.Labels[fmt.Sprintf("l%d", i)] = "x"
			}
		}, []string{"spec.pod"}},
		"another consumer": {func(p *federation.ShadowPod) { delete(p.Labels, v1alpha1.LabelOrigin) }, []string{"metadata.labels[offloading.liqo.io/origin]"}},
	})
}

// Pod Security also applies to ephemeral containers, and an update that adds one cannot change
// other fields.
func TestOffloadedEphemeralContainersPoliced(t *testing.T) {
	debugged := goodPod()
	debugged.ResourceVersion = "1"
	before := debugged.DeepCopy()
	debugger()(&debugged.Spec.Pod)
	if errs := ValidateShadowPodUpdate(debugged, before); len(errs) > 0 {
		t.Fatalf("an ephemeral container is refused: %v", errs)
	}
	if errs := ValidateShadowPod(debugged); len(errs) != 1 || errs[0].Field != "spec.pod.ephemeralContainers" {
		t.Errorf("a new pod has an ephemeral container: %v", errs)
	}
	adding := func(changes ...func(*corev1.EphemeralContainer)) func(*federation.ShadowPod) {
		return func(p *federation.ShadowPod) {
			debugger(append([]func(*corev1.EphemeralContainer){func(c *corev1.EphemeralContainer) { c.Name = "more" }},
				changes...)...)(&p.Spec.Pod)
		}
	}
	secured := func(change func(*corev1.SecurityContext)) func(*federation.ShadowPod) {
		return adding(func(c *corev1.EphemeralContainer) {
			c.SecurityContext = &corev1.SecurityContext{}
			change(c.SecurityContext)
		})
	}
	const path = "spec.pod.ephemeralContainers"
	runUpdate(t, debugged, ValidateShadowPodUpdate, map[string]wrong[*federation.ShadowPod]{
		"a privileged one": {secured(func(s *corev1.SecurityContext) { s.Privileged = ptr.To(true) }), []string{"spec.pod"}},
		"one with a capability": {secured(func(s *corev1.SecurityContext) {
			s.Capabilities = &corev1.Capabilities{Add: []corev1.Capability{"SYS_PTRACE"}}
		}), []string{"spec.pod"}},
		"one without seccomp": {secured(func(s *corev1.SecurityContext) {
			s.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}
		}), []string{"spec.pod"}},
		"one on a port of the host": {adding(func(c *corev1.EphemeralContainer) { c.Ports = []corev1.ContainerPort{{ContainerPort: 1, HostPort: 22}} }), []string{"spec.pod"}},
		"one without an image":      {adding(func(c *corev1.EphemeralContainer) { c.Image = "" }), []string{path + "[1].image"}},
		"one without a name":        {adding(func(c *corev1.EphemeralContainer) { c.Name = "" }), []string{path + "[1].name"}},
		"one of the same name":      {adding(func(c *corev1.EphemeralContainer) { c.Name = "debug" }), []string{path + "[1].name"}},
		"another command":           {func(p *federation.ShadowPod) { p.Spec.Pod.EphemeralContainers[0].Command = []string{"sh"} }, []string{path}},
		"another image":             {func(p *federation.ShadowPod) { p.Spec.Pod.EphemeralContainers[0].Image = "debug:2" }, []string{path}},
		"none any more":             {func(p *federation.ShadowPod) { p.Spec.Pod.EphemeralContainers = nil }, []string{path}},
		"too many": {func(p *federation.ShadowPod) {
			p.Spec.Pod.EphemeralContainers = append(p.Spec.Pod.EphemeralContainers, many(maxContainers,
				func(i int) corev1.EphemeralContainer {
					return corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: fmt.Sprintf("c%d",
						i), Image: "i"}}
				})...)
		}, []string{path}},
	})
}

func TestFinishedShadowPodsStayFinished(t *testing.T) {
	running := goodPod()
	running.ResourceVersion = "1"
	runUpdate(t, running, ValidateShadowPodStatusUpdate, map[string]wrong[*federation.ShadowPod]{
		"a phase of a running pod": {func(p *federation.ShadowPod) { p.Status.Phase = corev1.PodRunning }, []string{"status.phase"}},
		"a status without an end":  {func(p *federation.ShadowPod) { p.Status.Pod = &corev1.PodStatus{} }, []string{"status.pod"}},
		"a negative allocation":    {func(p *federation.ShadowPod) { p.Status.AllocatedResources = quantities("cpu", "-1") }, []string{"status.allocatedResources[cpu]"}},
		"a condition that is broken": {func(p *federation.ShadowPod) {
			p.Status.Conditions = []metav1.Condition{condition(func(c *metav1.Condition) { c.Type = "a b" })}
		}, []string{"status.conditions[0].type"}},
	})
	for _, phase := range []corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed} {
		finished := running.DeepCopy()
		finished.Status = federation.ShadowPodStatus{Phase: phase, Pod: &corev1.PodStatus{Phase: phase}}
		if errs := ValidateShadowPodStatusUpdate(finished, running); len(errs) > 0 {
			t.Errorf("a pod cannot become %s: %v", phase, errs)
		}
		runUpdate(t, finished, ValidateShadowPodStatusUpdate, map[string]wrong[*federation.ShadowPod]{
			string(phase) + " to running": {func(p *federation.ShadowPod) { p.Status = federation.ShadowPodStatus{} },
				[]string{"status.phase"}},
			string(phase) + " to the other": {func(p *federation.ShadowPod) {
				p.Status.Phase = map[corev1.PodPhase]corev1.PodPhase{corev1.PodSucceeded: corev1.PodFailed,
					corev1.PodFailed: corev1.PodSucceeded}[phase]
			}, []string{"status.phase"}},
			string(phase) +
				" at length": {func(p *federation.ShadowPod) { p.Status.Pod.Message = strings.Repeat("x", maxPodStatus) }, []string{"status.pod"}},
		})
	}
}
