// Guests of a few instructions for machine_test: 32-bit code for address 0x100000, position independent.
// Each is what lies between NAME_start and NAME_end.
    .section .rodata
    .code32

.macro guest name
    .global guest_\name\()_start, guest_\name\()_end
guest_\name\()_start:
.endm
.macro end_guest name
guest_\name\()_end:
.endm
.macro sleep_now
    movw $0x600, %dx
    movb $0x34, %al
    outb %al, %dx
1:  jmp 1b
.endm
.macro reset_now
    movb $0xfe, %al
    outb %al, $0x64
1:  jmp 1b
.endm

guest power_off
    sleep_now
end_guest power_off

guest reset
    reset_now
end_guest reset

guest warm_reset
    movw $0x1234, 0x472
    reset_now
end_guest warm_reset

// With an empty interrupt table, an interrupt is a triple fault.
guest triple_fault
    movl $0x200000, %esp
    pushl $0
    pushl $0
    lidt (%esp)
    int3
end_guest triple_fault

guest spin
1:  jmp 1b
end_guest spin

// Reads for ever where no memory is, an instruction that KVM emulates each time.
guest emulated
1:  movl 0xd0000000, %eax
    jmp 1b
end_guest emulated

guest serial
    movl $0x200000, %esp
    call 2f
2:  popl %esi
    addl $(message - 2b), %esi
    movw $0x3f8, %dx
3:  lodsb
    testb %al, %al
    jz 4f
    outb %al, %dx
    jmp 3b
4:  sleep_now
message:
    .asciz "early words\nand the last"
end_guest serial

// 30000 reads and writes of random ports and device registers. The I/O APIC is only told to send interrupts
// that a processor may refuse: this one has no table for others.
guest hostile
    movl $0x200000, %esp
    movl $30000, %ecx
    movl $0x12345678, %ebx
hostile_loop:
    call random
    movl %eax, %edi
    call random
    testl $0x10, %eax
    jz hostile_port
    testl $0x20, %eax
    jz hostile_far
    testl $0x40, %eax
    jz hostile_apic
    andl $0x7fff, %edi          // the pages of the first devices
    testl $0x80, %eax
    jz 1f
    andl $0xf0fc, %edi          // their registers
1:  addl $0xd0000000, %edi
    jmp hostile_access
hostile_far:
    andl $0x0fffffff, %edi
    addl $0xe0000000, %edi
    jmp hostile_access
hostile_apic:
    andl $0x1f, %edi
    addl $0xfec00000, %edi
    andl $0xfffff8ff, %eax
hostile_access:
    testl $1, %eax
    jz 2f
    movl (%edi), %eax
    jmp hostile_next
2:  testl $2, %eax
    jz 3f
    movl %eax, (%edi)
    jmp hostile_next
3:  testl $4, %eax
    jz 4f
    movw %ax, (%edi)
    jmp hostile_next
4:  movb %al, (%edi)
    jmp hostile_next
hostile_port:
    movl %edi, %edx
    cmpw $0x64, %dx
    je hostile_next
    cmpw $0x600, %dx
    je hostile_next
    testl $1, %eax
    jz 5f
    inl %dx, %eax
    jmp hostile_next
5:  testl $2, %eax
    jz 6f
    outb %al, %dx
    jmp hostile_next
6:  outl %eax, %dx
hostile_next:
    decl %ecx
    jnz hostile_loop
    sleep_now
random:                         // xorshift32
    movl %ebx, %eax
    shll $13, %eax
    xorl %eax, %ebx
    movl %ebx, %eax
    shrl $17, %eax
    xorl %eax, %ebx
    movl %ebx, %eax
    shll $5, %eax
    xorl %eax, %ebx
    movl %ebx, %eax
    ret
end_guest hostile

    .code64
    .section .note.GNU-stack, "", @progbits
