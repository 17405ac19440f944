/* A stand-in for <windows.h>, so that the Windows paths can be compiled for the MSVC ABI without its SDK: what infer.h uses,
 * and the macros that trip others (min, near, small, ...), so that a name of ours that collides is found here. */
#ifndef STUB_WINDOWS_H
#define STUB_WINDOWS_H
#include <stddef.h>
#define WINAPI __stdcall
#define STUB __declspec(dllimport)
#ifndef NOMINMAX
#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
#endif
#define near
#define far
#define small char
#define hyper long long
#define interface struct
#define IN
#define OUT
#define OPTIONAL
#define CONST const
#define VOID void
#define TRUE 1
#define FALSE 0
#define ERROR 0
#define DELETE 0x00010000L
#define INFINITE 0xffffffffu
#define MAX_PATH 260
typedef void *HANDLE;
typedef HANDLE HMODULE;
typedef int BOOL;
typedef unsigned long DWORD;
typedef unsigned short WCHAR;
typedef void *LPVOID;
typedef size_t SIZE_T;
typedef size_t DWORD_PTR;
typedef unsigned int UINT;
typedef long LONG;
typedef union { struct { DWORD LowPart; LONG HighPart; } u; long long QuadPart; } LARGE_INTEGER;
typedef struct { size_t Internal, InternalHigh; DWORD Offset, OffsetHigh; HANDLE hEvent; } OVERLAPPED;
typedef struct { unsigned short wYear, wMonth, wDayOfWeek, wDay, wHour, wMinute, wSecond, wMilliseconds; } SYSTEMTIME;
typedef struct { DWORD dwOemId, dwPageSize; void *lo, *hi; DWORD_PTR dwActiveProcessorMask; DWORD dwNumberOfProcessors; } SYSTEM_INFO;
typedef struct {
    DWORD dwLength, dwMemoryLoad;
    unsigned long long ullTotalPhys, ullAvailPhys, ullTotalPageFile, ullAvailPageFile, ullTotalVirtual, ullAvailVirtual, extended;
} MEMORYSTATUSEX;
typedef struct { void *p; } SRWLOCK;
typedef struct { void *p; } CONDITION_VARIABLE;
typedef int (WINAPI *FARPROC)(void);
typedef DWORD (WINAPI *LPTHREAD_START_ROUTINE)(LPVOID);
#define INVALID_HANDLE_VALUE ((HANDLE)(long long)-1)
#define INVALID_FILE_ATTRIBUTES ((DWORD)-1)
#define FILE_ATTRIBUTE_DIRECTORY 0x10
#define FILE_ATTRIBUTE_NORMAL 0x80
#define GENERIC_READ 0x80000000L
#define FILE_SHARE_READ 1
#define FILE_SHARE_WRITE 2
#define FILE_SHARE_DELETE 4
#define OPEN_EXISTING 3
#define PAGE_READONLY 2
#define FILE_MAP_READ 4
#define FILE_TYPE_DISK 1
#define CP_UTF8 65001
#define MB_ERR_INVALID_CHARS 8
#define ERROR_FILE_NOT_FOUND 2L
#define ERROR_PATH_NOT_FOUND 3L
#define ERROR_TOO_MANY_OPEN_FILES 4L
#define ERROR_ACCESS_DENIED 5L
#define ERROR_SHARING_VIOLATION 32L
STUB void WINAPI GetLocalTime(SYSTEMTIME *);
STUB BOOL WINAPI QueryPerformanceCounter(LARGE_INTEGER *);
STUB BOOL WINAPI QueryPerformanceFrequency(LARGE_INTEGER *);
STUB BOOL WINAPI GetProcessAffinityMask(HANDLE, DWORD_PTR *, DWORD_PTR *);
STUB HANDLE WINAPI GetCurrentProcess(void);
typedef enum LOGICAL_PROCESSOR_RELATIONSHIP { RelationProcessorCore } LOGICAL_PROCESSOR_RELATIONSHIP;
typedef struct SYSTEM_LOGICAL_PROCESSOR_INFORMATION {
    DWORD_PTR ProcessorMask;
    LOGICAL_PROCESSOR_RELATIONSHIP Relationship;
    unsigned long long Reserved[2];
} SYSTEM_LOGICAL_PROCESSOR_INFORMATION;
STUB BOOL WINAPI GetLogicalProcessorInformation(SYSTEM_LOGICAL_PROCESSOR_INFORMATION *, DWORD *);
STUB void WINAPI GetSystemInfo(SYSTEM_INFO *);
STUB BOOL WINAPI GlobalMemoryStatusEx(MEMORYSTATUSEX *);
STUB BOOL WINAPI SwitchToThread(void);
STUB int WINAPI MultiByteToWideChar(UINT, DWORD, const char *, int, WCHAR *, int);
STUB DWORD WINAPI GetFileAttributesW(const WCHAR *);
STUB HANDLE WINAPI CreateFileW(const WCHAR *, DWORD, DWORD, void *, DWORD, DWORD, HANDLE);
STUB DWORD WINAPI GetLastError(void);
STUB DWORD WINAPI GetFileType(HANDLE);
STUB BOOL WINAPI GetFileSizeEx(HANDLE, LARGE_INTEGER *);
STUB BOOL WINAPI CloseHandle(HANDLE);
STUB HANDLE WINAPI CreateFileMappingW(HANDLE, void *, DWORD, DWORD, DWORD, const WCHAR *);
STUB void *WINAPI MapViewOfFile(HANDLE, DWORD, DWORD, DWORD, SIZE_T);
STUB BOOL WINAPI UnmapViewOfFile(const void *);
STUB BOOL WINAPI ReadFile(HANDLE, void *, DWORD, DWORD *, OVERLAPPED *);
STUB void WINAPI InitializeSRWLock(SRWLOCK *);
STUB void WINAPI AcquireSRWLockExclusive(SRWLOCK *);
STUB void WINAPI ReleaseSRWLockExclusive(SRWLOCK *);
STUB void WINAPI InitializeConditionVariable(CONDITION_VARIABLE *);
STUB void WINAPI WakeAllConditionVariable(CONDITION_VARIABLE *);
STUB BOOL WINAPI SleepConditionVariableSRW(CONDITION_VARIABLE *, SRWLOCK *, DWORD, DWORD);
STUB HANDLE WINAPI CreateThread(void *, SIZE_T, LPTHREAD_START_ROUTINE, LPVOID, DWORD, DWORD *);
STUB DWORD WINAPI GetCurrentThreadId(void);
STUB HANDLE WINAPI GetCurrentThread(void);
STUB BOOL WINAPI GetProcessWorkingSetSize(HANDLE, SIZE_T *, SIZE_T *);
STUB BOOL WINAPI SetProcessWorkingSetSize(HANDLE, SIZE_T, SIZE_T);
STUB BOOL WINAPI VirtualLock(LPVOID, SIZE_T);
STUB BOOL WINAPI VirtualUnlock(LPVOID, SIZE_T);
STUB DWORD_PTR WINAPI SetThreadAffinityMask(HANDLE, DWORD_PTR);
#define THREAD_PRIORITY_BELOW_NORMAL (-1)
STUB BOOL WINAPI SetThreadPriority(HANDLE, int);
STUB DWORD WINAPI WaitForSingleObject(HANDLE, DWORD);
STUB HMODULE WINAPI LoadLibraryA(const char *);
STUB FARPROC WINAPI GetProcAddress(HMODULE, const char *);
STUB BOOL WINAPI FreeLibrary(HMODULE);
#endif
